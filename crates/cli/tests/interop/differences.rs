//! What 0.171.0 does otherwise than the specification says, or where the specification is silent: one case per
//! difference, with the requests that show it. Paths below `/t` are those of the run.

/// One difference.
pub(crate) struct Case {
    /// What the reference does.
    pub(crate) what: &'static str,
    /// What the specification says.
    pub(crate) specification: &'static str,
    /// What shows it, in this order on one connection.
    pub(crate) asks: &'static [Ask],
}

/// One request.
pub(crate) struct Ask {
    pub(crate) method: &'static str,
    /// JSON.
    pub(crate) params: &'static str,
    pub(crate) then: Then,
}

/// What is shown beside the answer.
#[derive(Clone, Copy)]
pub(crate) enum Then {
    Nothing,
    /// The next notification of this method.
    Notice(&'static str),
    /// Of a long answer only the part behind this.
    Near(&'static str),
    /// That every protected variable has the same answer.
    Protected,
}

const fn ask(method: &'static str, params: &'static str) -> Ask {
    Ask {
        method,
        params,
        then: Then::Nothing,
    }
}

const fn and(method: &'static str, params: &'static str, then: Then) -> Ask {
    Ask {
        method,
        params,
        then,
    }
}

/// Variables whose value no header may carry.
pub(crate) const PROTECTED: [&str; 13] = [
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AZURE_CLIENT_SECRET",
    "AZURE_FEDERATED_TOKEN_FILE",
    "CODEX_ACCESS_TOKEN",
    "CODEX_API_KEY",
    "CODEX_CONNECTORS_TOKEN",
    "CODEX_EXEC_SERVER_NOISE_AUTH_TOKEN",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "OPENAI_API_KEY",
    "OPENAI_FEDERATION_RULE_ID",
    "OPENAI_IDENTITY_TOKEN_FILE",
];

/// Every difference known.
pub(crate) const CASES: &[Case] = &[
    Case {
        what: "NUL in a path URI is refused while decoding, in every method.",
        specification: "refused when turned into a native path, with -32600 in `fs/canonicalize` (8).",
        asks: &[
            ask("fs/canonicalize", r#"{"path":"file:///a%00b"}"#),
            ask(
                "process/start",
                r#"{"processId":"p","argv":["true"],"cwd":"file:///a%00b","env":{},"tty":false}"#,
            ),
        ],
    },
    Case {
        what: "A path of another host or with a drive letter is -32600 in every file method.",
        specification: "-32602 in `fs/readFile` (8).",
        asks: &[
            ask("fs/readFile", r#"{"path":"file:///C:/x"}"#),
            ask("fs/open", r#"{"handleId":"h","path":"file://host/a"}"#),
        ],
    },
    Case {
        what: "The native path `/c:` is written in a form of its own, which is read, too (here from `TMPDIR=/c:`).",
        specification: "does not name it (8).",
        asks: &[
            and("environment/info", "{}", Then::Near(r#""tempDir":"#)),
            ask(
                "fs/getMetadata",
                r#"{"path":"file:///%00/bad/path/L2M6L25vbmU"}"#,
            ),
        ],
    },
    Case {
        what: "`null` is refused for flags, lists and choices that have a default, except the flags of file methods.",
        specification: "optional members may be absent or `null` (2).",
        asks: &[
            ask(
                "process/start",
                r#"{"processId":"p","argv":["true"],"cwd":"file:///t/","env":{},"tty":false,"pipeStdin":null}"#,
            ),
            ask(
                "http/request",
                r#"{"requestId":"r","method":"GET","url":"http://127.0.0.1:1/","headers":null}"#,
            ),
            ask(
                "fs/open",
                r#"{"handleId":"h","path":"file:///t/file","mode":null}"#,
            ),
            ask(
                "fs/remove",
                r#"{"path":"file:///t/none","recursive":null,"force":null,"followSymlinks":null}"#,
            ),
        ],
    },
    Case {
        what: "`glob_scan_max_depth` is not zero.",
        specification: "does not limit it (9.3).",
        asks: &[ask(
            "fs/readFile",
            r#"{"path":"file:///t/file","sandbox":{"permissions":{"type":"managed","file_system":{"type":"restricted","entries":[],"glob_scan_max_depth":0},"network":"enabled"},"windowsSandboxLevel":"disabled"}}"#,
        )],
    },
    Case {
        what: "Thirteen variables are protected from `valueEnvVar`.",
        specification: "names one of them (10).",
        asks: &[and(
            "http/request",
            r#"{"requestId":"r","method":"GET","url":"http://127.0.0.1:1/","headers":[{"name":"a","value":"","valueEnvVar":"AWS_ACCESS_KEY_ID"}]}"#,
            Then::Protected,
        )],
    },
    Case {
        what: "A plugin's entry has `displayName`.",
        specification: "does not name it (13).",
        asks: &[and(
            "capabilities/discoverV2",
            r#"{"cwd":"file:///t/"}"#,
            Then::Near(r#""plugins":[{"id":"plug@market","#),
        )],
    },
    Case {
        what: "A watch declines paths that lead through a link or a file, and a `present` that is a link.",
        specification: "does not name these reasons (9.4).",
        asks: &[
            ask(
                "fs/watchMissing",
                r#"{"watchId":1,"missing":["file:///t/link/none"]}"#,
            ),
            ask(
                "fs/watchMissing",
                r#"{"watchId":2,"missing":["file:///t/file/none"]}"#,
            ),
            ask(
                "fs/watchMissing",
                r#"{"watchId":3,"missing":["file:///t/real/none"],"present":"file:///t/link"}"#,
            ),
            ask(
                "fs/watchMissing",
                r#"{"watchId":4,"missing":["file:///t/real/none"]}"#,
            ),
        ],
    },
    Case {
        what: "`inherit: core` keeps eleven variables (the executor had these and `EDITOR`, `LC_TIME`, `TERM`, `TZ`, `USERNAME`).",
        specification: "four were seen (6).",
        asks: &[and(
            "process/start",
            r#"{"processId":"p","argv":["sh","-c","tr '\\0' '\\n' < /proc/$$/environ | cut -d= -f1 | sort | tr '\\n' ' '; read x"],"cwd":"file:///","env":{},"tty":false,"pipeStdin":true,"envPolicy":{"inherit":"core","ignoreDefaultExcludes":false,"exclude":[],"set":{},"includeOnly":[]}}"#,
            Then::Notice("process/output"),
        )],
    },
    Case {
        what: "A file that is copied onto itself is empty afterwards.",
        specification: "does not name the case (9.1).",
        asks: &[
            ask(
                "fs/copy",
                r#"{"sourcePath":"file:///t/file","destinationPath":"file:///t/file","recursive":false}"#,
            ),
            ask("fs/readFile", r#"{"path":"file:///t/file"}"#),
        ],
    },
    Case {
        what: "A copied tree follows links that stand in the destination (`destination/x` leads to `outside`, which held `old`).",
        specification: "does not name the case (9.1).",
        asks: &[
            ask(
                "fs/copy",
                r#"{"sourcePath":"file:///t/source","destinationPath":"file:///t/destination","recursive":true}"#,
            ),
            ask("fs/readFile", r#"{"path":"file:///t/outside"}"#),
        ],
    },
    Case {
        what: "Removing recursively without following links is not done, even for an empty directory.",
        specification: "does not except it (9.1).",
        asks: &[ask(
            "fs/remove",
            r#"{"path":"file:///t/empty","recursive":true,"followSymlinks":false}"#,
        )],
    },
    Case {
        what: "In a terminal every signal that ends the program is exit code 1.",
        specification: "128 + n; 1 was seen after an interrupt (6).",
        asks: &[and(
            "process/start",
            r#"{"processId":"p","argv":["/bin/sh","-c","kill -TERM $$"],"cwd":"file:///","env":{},"tty":true}"#,
            Then::Notice("process/exited"),
        )],
    },
    Case {
        what: "In a terminal a missing working directory is replaced by `HOME`.",
        specification: "-32603, `spawnNotFound` (6).",
        asks: &[and(
            "process/start",
            r#"{"processId":"p","argv":["/bin/sh","-c","pwd; read x"],"cwd":"file:///t/none","env":{"HOME":"/"},"tty":true}"#,
            Then::Notice("process/output"),
        )],
    },
    Case {
        what: "In a terminal a name that is not found on `PATH` is `spawnFailed`, and without `PATH` in `env` nothing is found.",
        specification: "`spawnNotFound` (6).",
        asks: &[
            ask(
                "process/start",
                r#"{"processId":"p","argv":["nonesuch"],"cwd":"file:///","env":{"PATH":"/bin"},"tty":true}"#,
            ),
            ask(
                "process/start",
                r#"{"processId":"p","argv":["sh"],"cwd":"file:///","env":{},"tty":true}"#,
            ),
            ask(
                "process/start",
                r#"{"processId":"p","argv":["nonesuch"],"cwd":"file:///","env":{"PATH":"/bin"},"tty":false}"#,
            ),
        ],
    },
];
