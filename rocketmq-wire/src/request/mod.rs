//! Typed requests and their answers, one file a family.
//!
//! A request type is its header; what travels in the body is named in its documentation. Text borrows from the frame
//! where it can. Sources: the header classes of Apache RocketMQ 4.4 to 5.3 and recorded frames.

pub mod admin;
pub mod group;
pub mod name_server;
pub mod offset;
pub mod pull;
pub mod query;
pub mod registration;
pub mod reply;
pub mod route;
pub mod send;

use crate::code::RequestCode;
use crate::header::{DecodeFields, EncodeFields, NoFields};

/// A request whose header and answer header have types.
pub trait Request: EncodeFields {
    /// The code that asks for it.
    const CODE: RequestCode;
    /// The header of a successful answer.
    type Response<'a>: DecodeFields<'a>;
}

/// Ties a header type to its code and the header of its answer.
macro_rules! request {
    ($name:ident $(<$life:lifetime>)? = $code:ident -> $response:ident $(<$response_life:lifetime>)?) => {
        impl $(<$life>)? $crate::request::Request for $name $(<$life>)? {
            const CODE: $crate::code::RequestCode = $crate::code::RequestCode::$code;
            type Response<'r> = $crate::request::response_type!($response $(<$response_life>)?);
        }
    };
}
pub(crate) use request;

/// Gives a response type the lifetime of the trait.
macro_rules! response_type {
    ($response:ident <$life:lifetime>) => { $response<'r> };
    ($response:ident) => { $response };
}
pub(crate) use response_type;

/// Defines a request without fields.
macro_rules! bare_request {
    ($(#[$meta:meta])* $name:ident = $code:ident) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct $name;

        impl $crate::header::EncodeFields for $name {
            fn is_present(&self) -> bool {
                false
            }
            fn encode_fields<W: $crate::header::FieldWriter>(&self, _writer: &mut W) {}
        }

        impl<'a> $crate::header::DecodeFields<'a> for $name {
            fn decode_fields(_fields: $crate::header::Fields<'a>) -> Result<Self, $crate::DecodeError> {
                Ok(Self)
            }
        }

        impl $crate::request::Request for $name {
            const CODE: $crate::code::RequestCode = $crate::code::RequestCode::$code;
            type Response<'r> = $crate::header::NoFields;
        }
    };
}
pub(crate) use bare_request;

/// The answer header of requests whose answers carry none.
pub type EmptyResponse = NoFields;
