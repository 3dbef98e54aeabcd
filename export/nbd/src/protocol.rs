//! The messages of NBD: structures of bytes, without input and output.
//!
//! Source: `doc/proto.md` of the project NBD; for extended headers, its branch
//! `extension-ext-header`.

mod block_descriptor;
mod block_status;
mod chunk_type;
mod command;
mod error_chunk;
mod error_number;
mod export_name_reply;
mod extended_reply;
mod fields;
mod flags;
mod greeting;
mod info;
mod info_request;
mod limits;
mod meta_context_reply;
mod meta_context_request;
mod numbered;
mod offset_data;
mod offset_hole;
mod option_code;
mod option_reply;
mod option_request;
mod reply_header;
mod reply_type;
mod request;
mod server_reply;
mod simple_reply;
mod status_filter;
mod structured_reply;
mod violation;

pub(crate) use block_descriptor::BlockDescriptor;
pub(crate) use block_status::BlockStatus;
pub(crate) use chunk_type::ChunkType;
pub(crate) use command::Command;
pub(crate) use error_chunk::ErrorChunk;
pub(crate) use error_number::ErrorNumber;
pub(crate) use export_name_reply::ExportNameReply;
pub(crate) use flags::{CommandFlags, HandshakeFlags, ReplyFlags, StateFlags, TransmissionFlags};
pub(crate) use greeting::Greeting;
pub(crate) use info::{Info, InfoType};
pub(crate) use info_request::InfoRequest;
pub(crate) use limits::{
    BASE_ALLOCATION, MAX_DESCRIPTORS, MAX_PAYLOAD_BYTES, MAX_QUERIES, MAX_STRING_BYTES,
};
pub(crate) use meta_context_reply::MetaContextReply;
pub(crate) use meta_context_request::MetaContextRequest;
pub(crate) use offset_data::OffsetData;
pub(crate) use offset_hole::OffsetHole;
pub(crate) use option_code::OptionCode;
pub(crate) use option_reply::OptionReply;
pub(crate) use option_request::OptionRequest;
pub(crate) use reply_header::{Chunk, Headers, ReplyHeader};
pub(crate) use reply_type::ReplyType;
pub(crate) use request::Request;
pub(crate) use server_reply::ServerReply;
pub(crate) use simple_reply::SimpleReply;
pub(crate) use status_filter::StatusFilter;
pub(crate) use violation::Violation;

#[cfg(test)]
mod tests;
