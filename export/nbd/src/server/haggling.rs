//! The options of a handshake that leave the stream as it is.

use std::sync::Arc;

use super::catalog::Exports;
use super::export::Export;
use super::selection::{self, Selection};
use crate::protocol::{
    Headers, Info, InfoRequest, InfoType, MetaContextReply, MetaContextRequest, OptionCode,
    ReplyType, Violation,
};

/// The step after an option.
pub(super) enum Next {
    Option,
    Transmission(Arc<Export>),
    End,
}

/// A reply to an option: its type, and its data.
pub(super) type Reply = (ReplyType, Vec<u8>);

/// The number of replies with information: a client may ask for the same one again and again.
const MAX_INFOS: usize = 8;

/// The length of a reason, which may quote an image: with its prefix, it fits in a string.
const MAX_REASON_CHARS: usize = 1000;

/// The state of the negotiation, which begins anew with TLS.
pub(super) struct Haggling<'a> {
    pub(super) exports: &'a Exports,
    /// The last export that the client named, which it mostly names again.
    named: Option<Arc<Export>>,
    pub(super) headers: Headers,
    selection: Option<Selection>,
}

impl<'a> Haggling<'a> {
    pub(super) const fn new(exports: &'a Exports) -> Self {
        Self {
            exports,
            named: None,
            headers: Headers::Simple,
            selection: None,
        }
    }

    /// Returns the replies to an option that leaves the stream as it is.
    pub(super) fn answer(&mut self, option: Option<OptionCode>, data: &[u8]) -> (Vec<Reply>, Next) {
        let replies = match option {
            Some(OptionCode::List) => self.list(data),
            Some(OptionCode::Info) => self.info(data).map(|(replies, _)| replies),
            Some(OptionCode::Go) => match self.info(data) {
                Ok((replies, export)) => return (replies, Next::Transmission(export)),
                Err(refused) => Err(refused),
            },
            Some(OptionCode::StructuredReply) => self.structured_reply(data),
            Some(OptionCode::ExtendedHeaders) => self.extended_headers(data),
            Some(OptionCode::ListMetaContext) => self.list_contexts(data),
            Some(OptionCode::SetMetaContext) => self.set_contexts(data),
            _ => Err(vec![error(ReplyType::Unsupported, "unknown option")]),
        };
        (replies.unwrap_or_else(|refused| refused), Next::Option)
    }

    fn list(&self, data: &[u8]) -> Result<Vec<Reply>, Vec<Reply>> {
        without_data(data)?;
        let listed = self.exports.list().map_err(|e| unavailable(&e))?;
        let replies = listed
            .iter()
            .map(|export| (ReplyType::Server, export.encode()));
        Ok(replies.chain([ack()]).collect())
    }

    /// Opens the export with this name, unless the client named it before.
    pub(super) fn export(&mut self, name: &str) -> diskfs_block::Result<Option<Arc<Export>>> {
        let named = self.named.take().filter(|export| export.name == name);
        self.named = match named {
            Some(export) => Some(export),
            None => self.exports.open(name)?,
        };
        Ok(self.named.clone())
    }

    fn known_export(&mut self, name: &str) -> Result<Arc<Export>, Vec<Reply>> {
        match self.export(name) {
            Ok(Some(export)) => Ok(export),
            Ok(None) => Err(vec![error(ReplyType::Unknown, "unknown export")]),
            Err(error) => Err(unavailable(&error)),
        }
    }

    /// Answers `NBD_OPT_INFO` and `NBD_OPT_GO`.
    fn info(&mut self, data: &[u8]) -> Result<(Vec<Reply>, Arc<Export>), Vec<Reply>> {
        let request = InfoRequest::decode(data).map_err(invalid)?;
        let export = self.known_export(&request.name)?;
        let flags = export.flags(self.headers, !self.contexts(&export).is_empty());
        let size_bytes = export.device.reader().size_bytes();
        let block_size = export.block_size_info();
        let mut infos = vec![Info::Export { size_bytes, flags }, block_size];
        for wanted in &request.requests {
            match wanted {
                InfoType::Name => infos.push(Info::Name(export.name.clone())),
                InfoType::Description if !export.description.is_empty() => {
                    infos.push(Info::Description(export.description.clone()));
                }
                _ => {}
            }
        }
        infos.truncate(MAX_INFOS);
        let mut replies: Vec<_> = infos
            .iter()
            .map(|info| (ReplyType::Info, info.encode()))
            .collect();
        if export.sizes.minimum > 1 && !request.requests.contains(&InfoType::BlockSize) {
            replies.push(error(ReplyType::BlockSizeRequired, "ask for block sizes"));
            return Err(replies);
        }
        replies.push(ack());
        Ok((replies, export))
    }

    fn structured_reply(&mut self, data: &[u8]) -> Result<Vec<Reply>, Vec<Reply>> {
        without_data(data)?;
        if self.headers == Headers::Extended {
            let reason = "extended headers are in use";
            return Err(vec![error(ReplyType::ExtendedHeadersRequired, reason)]);
        }
        self.headers = Headers::Structured;
        Ok(vec![ack()])
    }

    fn extended_headers(&mut self, data: &[u8]) -> Result<Vec<Reply>, Vec<Reply>> {
        without_data(data)?;
        self.headers = Headers::Extended;
        Ok(vec![ack()])
    }

    /// Decodes the data of an option about metadata contexts.
    fn context_request(&self, data: &[u8]) -> Result<MetaContextRequest, Vec<Reply>> {
        if self.headers == Headers::Simple {
            let reason = "metadata contexts need structured replies";
            return Err(vec![error(ReplyType::Invalid, reason)]);
        }
        MetaContextRequest::decode(data).map_err(invalid)
    }

    fn list_contexts(&mut self, data: &[u8]) -> Result<Vec<Reply>, Vec<Reply>> {
        let request = self.context_request(data)?;
        let export = self.known_export(&request.name)?;
        let found = selection::listed(&export, &request.queries);
        let contexts = found
            .into_iter()
            .map(|(_, name)| MetaContextReply { id: 0, name });
        Ok(context_replies(contexts))
    }

    fn set_contexts(&mut self, data: &[u8]) -> Result<Vec<Reply>, Vec<Reply>> {
        self.selection = None;
        let request = self.context_request(data)?;
        let export = self.known_export(&request.name)?;
        let found = selection::selected(&export, &request.queries);
        let numbers = found.iter().map(|(id, _)| *id).collect();
        self.selection = Some(Selection::new(request.name, numbers));
        let contexts = found
            .into_iter()
            .map(|(id, name)| MetaContextReply { id, name });
        Ok(context_replies(contexts))
    }

    /// Returns the contexts that the client selected for this export.
    pub(super) fn contexts(&self, export: &Export) -> &[u32] {
        let selection = self.selection.as_ref();
        selection.map_or(&[], |it| it.of(&export.name))
    }
}

pub(super) fn ack() -> Reply {
    (ReplyType::Ack, Vec::new())
}

pub(super) fn error(reply_type: ReplyType, message: &str) -> Reply {
    (reply_type, message.as_bytes().to_vec())
}

/// Returns the reply for an export that cannot be opened. The paths of the host's files are not
/// sent.
fn unavailable(failure: &diskfs_block::Error) -> Vec<Reply> {
    tracing::warn!("an NBD export is not available: {failure}");
    let reason: String = failure.reason().chars().take(MAX_REASON_CHARS).collect();
    let reason = format!("the export is not available: {reason}");
    vec![error(ReplyType::Unknown, &reason)]
}

fn invalid(violation: Violation) -> Vec<Reply> {
    vec![error(ReplyType::Invalid, violation.0)]
}

fn without_data(data: &[u8]) -> Result<(), Vec<Reply>> {
    if data.is_empty() {
        Ok(())
    } else {
        Err(invalid(Violation("unexpected data")))
    }
}

fn context_replies(contexts: impl Iterator<Item = MetaContextReply>) -> Vec<Reply> {
    contexts
        .map(|context| (ReplyType::MetaContext, context.encode()))
        .chain([ack()])
        .collect()
}
