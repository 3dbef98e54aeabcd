//! Constructors for the results of probes.

use crate::stack::content::{Content, ContentClass};

pub(super) fn filesystem(kind: &'static str, label: Vec<u8>, uuid: Option<String>) -> Content {
    Content {
        kind,
        class: ContentClass::Filesystem,
        label,
        uuid,
    }
}

pub(super) fn container(kind: &'static str, label: Vec<u8>, uuid: Option<String>) -> Content {
    Content {
        class: ContentClass::Container,
        ..filesystem(kind, label, uuid)
    }
}

pub(super) fn swap(kind: &'static str, label: Vec<u8>, uuid: Option<String>) -> Content {
    Content {
        class: ContentClass::Swap,
        ..filesystem(kind, label, uuid)
    }
}
