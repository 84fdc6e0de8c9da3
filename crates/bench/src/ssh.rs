//! An ssh server and client of this machine, on loopback, with keys made for the run.

use std::{
    fs,
    net::{Ipv4Addr, SocketAddrV4},
    path::Path,
};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;
use tokio::{
    io::AsyncReadExt,
    net::{TcpListener, TcpStream},
    process::{Child, Command},
};

const SERVER: &str = "/usr/sbin/sshd";

/// A running server and what a client needs to reach it.
pub(crate) struct Ssh {
    folder: TempDir,
    address: SocketAddrV4,
    _server: Child,
}

impl Ssh {
    /// Starts a server; `None` when this machine has none.
    pub(crate) async fn start() -> Result<Option<Self>> {
        if !Path::new(SERVER).exists() {
            return Ok(None);
        }
        let folder = tempfile::tempdir()?;
        for key in ["host", "user"] {
            let made = Command::new("ssh-keygen")
                .args(["-q", "-t", "ed25519", "-N", "", "-f"])
                .arg(folder.path().join(key))
                .status()
                .await?;
            ensure!(made.success(), "ssh-keygen ended as {made}");
        }
        // sshd demands it, and only the start script of the system makes it.
        let _ = fs::create_dir("/run/sshd");
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .await?
            .local_addr()?
            .port();
        let address = SocketAddrV4::new(Ipv4Addr::LOCALHOST, port);
        let at = folder.path().display();
        let config = folder.path().join("config");
        // With a shell level, bash does not take itself for a login and leaves the user's start files out.
        fs::write(
            &config,
            format!(
                "ListenAddress {address}\nHostKey {at}/host\nAuthorizedKeysFile {at}/user.pub\nPidFile none\n\
                 SetEnv SHLVL=1\nStrictModes no\nUsePAM no\nPermitRootLogin yes\nPasswordAuthentication no\n"
            ),
        )?;
        let server = Command::new(SERVER)
            .args(["-D", "-e", "-f"])
            .arg(&config)
            .stderr(fs::File::create(folder.path().join("log"))?)
            .kill_on_drop(true)
            .spawn()?;
        greeting(address).await?;
        Ok(Some(Self {
            folder,
            address,
            _server: server,
        }))
    }

    /// A client command that opens its own connection.
    pub(crate) fn command(&self, remote: &str) -> Command {
        let mut ssh = self.client();
        ssh.arg("127.0.0.1").arg(remote);
        ssh
    }

    /// A client command over the connection that [`Ssh::share`] keeps open.
    pub(crate) fn shared(&self, remote: &str) -> Command {
        let mut ssh = self.client();
        ssh.arg("-S").arg(self.socket());
        ssh.arg("127.0.0.1").arg(remote);
        ssh
    }

    /// Opens a connection that further commands share, until the returned child is dropped.
    pub(crate) async fn share(&self) -> Result<Child> {
        let mut ssh = self.client();
        ssh.args(["-M", "-N", "-S"]).arg(self.socket());
        let master = ssh.arg("127.0.0.1").kill_on_drop(true).spawn()?;
        while !self.socket().exists() {
            tokio::task::yield_now().await;
        }
        Ok(master)
    }

    fn socket(&self) -> std::path::PathBuf {
        self.folder.path().join("shared")
    }

    fn client(&self) -> Command {
        let mut ssh = Command::new("ssh");
        ssh.args(["-F", "none", "-n", "-T", "-p"])
            .arg(self.address.port().to_string())
            .arg("-i")
            .arg(self.folder.path().join("user"))
            .args(["-o", "StrictHostKeyChecking=no", "-o", "LogLevel=ERROR"])
            .args(["-o", "UserKnownHostsFile=/dev/null", "-o", "BatchMode=yes"]);
        ssh
    }
}

/// Waits until the server says who it is.
async fn greeting(address: SocketAddrV4) -> Result<()> {
    for _ in 0..100_000 {
        if let Ok(mut socket) = TcpStream::connect(address).await {
            let mut start = [0; 4];
            socket.read_exact(&mut start).await?;
            ensure!(&start == b"SSH-", "not an ssh server: {start:?}");
            return Ok(());
        }
        tokio::task::yield_now().await;
    }
    None.context("the ssh server does not listen")
}
