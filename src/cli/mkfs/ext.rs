//! The options of `diskfs mkfs ext4`, and of ext3 and ext2.

use clap::Args;
use diskfs::vfs::Timestamp;
use diskfs::{Error, ErrorKind, ExtKind, ExtOptions, Result};
use uuid::Uuid;

use super::source::SourceTree;
use super::{Common, small_size};
use crate::cli::random;
use crate::cli::tool::MethodArgs;

/// The default share of the blocks that is reserved for root, in percent.
const RESERVED: &str = "5";

#[derive(Debug, Args)]
pub(super) struct ExtArgs {
    /// The label, at most 16 bytes
    #[arg(short = 'L', long, default_value = "", hide_default_value = true)]
    label: String,

    /// The UUID [default: a random one]
    #[arg(short = 'U', long)]
    uuid: Option<Uuid>,

    /// The features to set, or with ^ to clear, as in mke2fs; can be repeated
    #[arg(short = 'O', long, value_name = "FEATURE,...")]
    features: Vec<String>,

    /// The block size, 1k to 64k [default: 4k, and 1k below 512 MiB]
    #[arg(short = 'b', long, value_name = "SIZE", value_parser = small_size)]
    block_size: Option<u32>,

    /// The cluster size, with the feature bigalloc [default: 16 blocks]
    #[arg(short = 'C', long, value_name = "SIZE", value_parser = small_size)]
    cluster_size: Option<u32>,

    /// The inode size [default: 256]
    #[arg(short = 'I', long, value_name = "SIZE")]
    inode_size: Option<u16>,

    /// Create an inode for every SIZE bytes [default: depends on the usage]
    #[arg(short = 'i', long, value_name = "SIZE", value_parser = small_size)]
    bytes_per_inode: Option<u32>,

    /// The number of inodes
    #[arg(short = 'N', long, value_name = "COUNT")]
    inodes: Option<u64>,

    /// The share of the blocks that is reserved for root, in percent
    #[arg(short = 'm', long, value_name = "PERCENT", default_value = RESERVED)]
    reserved: String,

    /// The number of blocks in a group
    #[arg(short = 'g', long, value_name = "COUNT")]
    blocks_per_group: Option<u32>,

    /// The number of groups in a flexible group
    #[arg(short = 'G', long, value_name = "COUNT")]
    groups_per_flex: Option<u32>,

    /// The usage, which decides on block size and inodes: small, news, largefile, ...
    #[arg(short = 'T', long, value_name = "USAGE")]
    usage: Option<String>,

    /// Extended options, as in mke2fs (`stride=4`, `hash_seed=UUID`, ...); can be repeated
    #[arg(short = 'E', long, value_name = "OPTION,...")]
    extended: Vec<String>,

    /// Options of the journal, as in mke2fs (size=64, ...); can be repeated
    #[arg(short = 'J', long, value_name = "OPTION,...")]
    journal: Vec<String>,

    #[command(flatten)]
    pub(super) tree: SourceTree,

    #[command(flatten)]
    pub(super) method: MethodArgs,

    #[command(flatten)]
    pub(super) common: Common,

    /// Options for mke2fs in a microVM, with --with vm
    #[cfg(feature = "microvm")]
    #[arg(last = true, value_name = "OPTIONS")]
    pub(super) options: Vec<String>,
}

impl ExtArgs {
    /// Returns the options of the filesystem.
    pub(super) fn format_options(&self, kind: ExtKind) -> Result<ExtOptions> {
        let mut options = ExtOptions {
            kind,
            label: self.label.clone(),
            uuid: match self.uuid {
                Some(uuid) => uuid.into_bytes(),
                None => random::uuid()?.into_bytes(),
            },
            hash_seed: random::uuid()?.into_bytes(),
            time: source_date()?.unwrap_or_else(Timestamp::now),
            block_bytes: self.block_size,
            cluster_bytes: self.cluster_size,
            inode_bytes: self.inode_size,
            bytes_per_inode: self.bytes_per_inode.map(u64::from),
            inodes: self.inodes,
            blocks_per_group: self.blocks_per_group,
            groups_per_flex: self.groups_per_flex,
            ..ExtOptions::default()
        };
        options.parse_reserved(&self.reserved)?;
        if let Some(usage) = &self.usage {
            options.parse_usage(usage)?;
        }
        let lists = [
            (&self.features, ExtOptions::parse_features as Parse),
            (&self.extended, ExtOptions::parse_extended),
            (&self.journal, ExtOptions::parse_journal),
        ];
        for (list, parse) in lists {
            for text in list {
                parse(&mut options, text)?;
            }
        }
        Ok(options)
    }

    /// Returns the label and the UUID for mke2fs.
    #[cfg(feature = "microvm")]
    pub(super) fn for_mke2fs(&self) -> Result<diskfs::vm::tools::NewByTool> {
        let lists = [&self.features, &self.extended, &self.journal];
        let is_native_only = lists.iter().any(|list| !list.is_empty())
            || self.block_size.is_some()
            || self.cluster_size.is_some()
            || self.inode_size.is_some()
            || self.bytes_per_inode.is_some()
            || self.inodes.is_some()
            || self.blocks_per_group.is_some()
            || self.groups_per_flex.is_some()
            || self.usage.is_some()
            || self.reserved != RESERVED;
        if is_native_only || self.tree.is_given() {
            let reason = "only -L and -U apply to mke2fs in a microVM";
            let hint = "give its other options after --, or leave out --with vm";
            return Err(Error::new(ErrorKind::Invalid, reason).with_hint(hint));
        }
        Ok(diskfs::vm::tools::NewByTool {
            label: Some(self.label.clone()).filter(|label| !label.is_empty()),
            uuid: self.uuid.map(|uuid| uuid.to_string()),
            options: self.options.clone(),
        })
    }
}

type Parse = fn(&mut ExtOptions, &str) -> diskfs::vfs::Result<()>;

/// Returns the time in the environment variable `SOURCE_DATE_EPOCH`, which makes results
/// reproducible (<https://reproducible-builds.org/specs/source-date-epoch/>).
///
/// # Errors
/// `Invalid` if it is not a number of seconds.
pub(in crate::cli) fn source_date() -> Result<Option<Timestamp>> {
    let Some(text) = std::env::var_os("SOURCE_DATE_EPOCH") else {
        return Ok(None);
    };
    let seconds = text.to_str().and_then(|text| text.parse::<u32>().ok());
    let Some(seconds) = seconds else {
        let reason = "invalid SOURCE_DATE_EPOCH: expected a number of seconds since 1970";
        return Err(Error::new(ErrorKind::Invalid, reason));
    };
    Ok(Some(Timestamp {
        seconds: seconds.into(),
        nanoseconds: 0,
    }))
}
