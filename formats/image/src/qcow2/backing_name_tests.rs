//! Power cuts at every moment while the backing file's name is changed.

use std::sync::Arc;

use diskfs_block::{BlockRead, Faulty, Memory};

use super::backing_name::set;
use super::header::{Header, NamedBacking};
use crate::CreateOptions;
use crate::create::{DataFileLayout, NewDataFile, NewImage, NewQcow2, create};

/// Returns an image without a backing file, whose data file's name has about the given length.
fn image(cluster_size_bytes: u64, data_file_name: usize) -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("image");
    // Clusters of 512 bytes have no room for a longer name.
    let data_file_name = data_file_name.min(usize::try_from(cluster_size_bytes).unwrap() - 200);
    let data_file = (data_file_name > 0).then(|| NewDataFile {
        name: format!("{}d", "./".repeat(data_file_name / 2)).into(),
        layout: DataFileLayout::Private,
    });
    let image = NewImage::Qcow2(Box::new(NewQcow2 {
        cluster_size_bytes,
        data_file,
        ..NewQcow2::default()
    }));
    create(&path, &CreateOptions::new(image, Some(1 << 20))).unwrap();
    std::fs::read(path).unwrap()
}

/// Returns what must be as before or as after: the names of both files, and the backing file's
/// format.
fn names(device: &dyn BlockRead) -> diskfs_block::Result<[Option<Vec<u8>>; 3]> {
    let header = Header::read(device)?;
    let format = header.extensions.backing_format.map(String::into_bytes);
    Ok([header.backing_name, header.extensions.data_file, format])
}

/// Sets a name with a power cut at each moment. Returns whether the name fitted.
fn cut(bytes: &mut Vec<u8>, backing: Option<&NamedBacking>, what: &str) -> bool {
    let device = Faulty::new(Arc::new(Memory::new(bytes.as_slice())), []);
    let before = names(&device).unwrap();
    let has_room = set(&device, backing).is_ok();
    let after = names(&device).unwrap();
    assert!(has_room || before == after, "{what}");
    for state in device.log().states(1) {
        let left = Memory::new(bytes.as_slice());
        state.replay(&left).unwrap();
        let found = names(&left).unwrap_or_else(|e| panic!("{what}: {state}: {e}"));
        assert!(
            found == before || found == after,
            "{what}: {state}: {found:?}"
        );
    }
    device.read_at(0, bytes).unwrap();
    has_room
}

#[test]
fn a_crash_leaves_the_old_name_or_the_new_one() {
    let mut set = 0;
    for cluster_size in [512, 1024, 4096] {
        for data_file in (0..200).step_by(8).chain([400, 700]) {
            for lens in [&[950, 4, 1000][..], &[4, 30, 0, 200, 90, 300, 4, 0, 190]] {
                let mut bytes = image(cluster_size, data_file);
                for (&len, letter) in lens.iter().zip(b'a'..) {
                    let backing = (len > 0).then(|| NamedBacking {
                        identity: None,
                        name: vec![letter; len],
                        format: if len % 3 == 0 { "raw" } else { "qcow2" },
                    });
                    let what = format!("clusters of {cluster_size}, {data_file}, {lens:?}: {len}");
                    set += usize::from(cut(&mut bytes, backing.as_ref(), &what));
                }
            }
        }
    }
    assert!(set > 300, "{set}");
}
