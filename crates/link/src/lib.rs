//! One physical connection: WebSocket, relay stream, stdio.
