//! The growth of filesystems by their own programs in a microVM.

use diskfs::vm::tools::{self, Work};
use diskfs::{ResizeTool, Result, ToolUse, Volume};

use crate::cli::options::SourceArgs;
use crate::cli::session::Session;
use crate::cli::tool::{self, MethodArgs};

/// The programs, and the options that choose them.
pub(super) struct Programs<'a> {
    pub(super) method: &'a MethodArgs,
    pub(super) source: &'a SourceArgs,
    pub(super) session: &'a Session,
}

impl ResizeTool for Programs<'_> {
    fn use_for(&self, kind: &str) -> ToolUse {
        if self.method.asks_for_native() || !tools::is_known(kind, &Work::Grow) {
            ToolUse::Never
        } else if self.method.asks_for_vm() {
            ToolUse::Always
        } else {
            ToolUse::Fallback
        }
    }

    fn check(&self, kind: &str) -> Result<()> {
        tools::check_available(&self.source.vm.options()?, kind, &Work::Grow)
    }

    fn grow(&self, volume: &Volume) -> Result<()> {
        tool::work(self.source, volume, &Work::Grow, self.session)?.check()
    }
}
