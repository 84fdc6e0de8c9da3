//! What ties a method's name to its types.

use std::fmt;

use serde::de::{
    DeserializeOwned, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Unexpected, Visitor,
};
use serde::{Deserialize, Serialize};

/// A method that is answered.
pub trait Call {
    /// Name on the wire.
    const METHOD: &'static str;
    /// Family, as the handshake errors name it.
    const FAMILY: Family;
    /// `params` of the request.
    type Params: Serialize + DeserializeOwned + Send + 'static;
    /// `result` of the answer.
    type Answer: Serialize + DeserializeOwned + Send + 'static;
}

/// A notification: nobody answers it.
pub trait Notice {
    /// Name on the wire.
    const METHOD: &'static str;
    /// `params` of the notification.
    type Params: Serialize + DeserializeOwned + Send + 'static;
}

/// Declares the marker type of a method: `call!(Start, "process/start", Exec, StartParams => StartAnswer);`
macro_rules! call {
    ($(#[$doc:meta])* $name:ident, $method:literal, $family:ident, $params:ty => $answer:ty) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy)]
        pub enum $name {}
        impl $crate::Call for $name {
            const METHOD: &'static str = $method;
            const FAMILY: $crate::Family = $crate::Family::$family;
            type Params = $params;
            type Answer = $answer;
        }
    };
}

/// Declares the marker type of a notification: `notice!(Closed, "process/closed", ClosedNotice);`
macro_rules! notice {
    ($(#[$doc:meta])* $name:ident, $method:literal, $params:ty) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy)]
        pub enum $name {}
        impl $crate::Notice for $name {
            const METHOD: &'static str = $method;
            type Params = $params;
        }
    };
}

pub(crate) use {call, notice};

/// Method families, as the errors before a complete handshake name them (`protocol.md` 3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Family {
    /// `initialize` itself, which has no such error.
    Handshake,
    /// Every process method.
    Exec,
    /// Every `fs/…` method.
    Filesystem,
    /// `http/request` and its cancellation.
    Http,
    /// `environment/info`.
    EnvironmentInfo,
    /// `environment/status`.
    EnvironmentStatus,
    /// `environmentConfig/read`.
    EnvironmentConfig,
    /// Both discovery methods.
    CapabilityDiscovery,
    /// `network/policyRequest`, the one request an executor sends.
    Network,
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Family::Handshake => "handshake",
            Family::Exec => "exec",
            Family::Filesystem => "filesystem",
            Family::Http => "http",
            Family::EnvironmentInfo => "environment info",
            Family::EnvironmentStatus => "environment status",
            Family::EnvironmentConfig => "environment config",
            Family::CapabilityDiscovery => "capability discovery",
            Family::Network => "network policy",
        })
    }
}

/// Params of a method that takes none: `null`, absence and `{}` are the same, anything else is refused
/// (`protocol.md` 2). Written as `{}`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct NoParams {}

impl<'de> Deserialize<'de> for NoParams {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Nothing;
        impl<'de> Visitor<'de> for Nothing {
            type Value = NoParams;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("unit")
            }
            fn visit_unit<E: Error>(self) -> Result<NoParams, E> {
                Ok(NoParams {})
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<NoParams, A::Error> {
                match map.next_key::<IgnoredAny>()? {
                    None => Ok(NoParams {}),
                    Some(_) => Err(Error::invalid_type(Unexpected::Map, &self)),
                }
            }
            fn visit_seq<A: SeqAccess<'de>>(self, _: A) -> Result<NoParams, A::Error> {
                Err(Error::invalid_type(Unexpected::Seq, &self))
            }
        }
        deserializer.deserialize_any(Nothing)
    }
}

/// The answer `{}`. Members a newer peer adds are ignored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Empty {}
