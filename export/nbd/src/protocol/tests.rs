//! Round trips and hostile bytes.

use proptest::prelude::*;

use super::limits::MAX_OPTION_BYTES;
use super::*;

/// Decodes bytes as every message.
fn decode_all(bytes: &[u8]) {
    let _ = Greeting::decode(bytes);
    let _ = OptionRequest::decode(bytes);
    let _ = OptionReply::decode(bytes);
    let _ = ExportNameReply::decode(bytes);
    let _ = InfoRequest::decode(bytes);
    let _ = Info::decode(bytes);
    let _ = ServerReply::decode(bytes);
    let _ = MetaContextRequest::decode(bytes);
    let _ = MetaContextReply::decode(bytes);
    let _ = OffsetData::decode(bytes);
    let _ = OffsetHole::decode(bytes);
    let _ = StatusFilter::decode(bytes);
    let _ = ReplyHeader::decode(bytes);
    for number in [0, 0x8001, 0x8002, 0xffff] {
        let _ = ErrorChunk::decode(number, bytes);
    }
    for headers in [Headers::Simple, Headers::Structured, Headers::Extended] {
        let _ = Request::decode(headers, bytes);
        let _ = BlockStatus::decode(headers, bytes);
    }
}

fn any_headers() -> impl Strategy<Value = Headers> {
    prop_oneof![
        Just(Headers::Simple),
        Just(Headers::Structured),
        Just(Headers::Extended)
    ]
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        decode_all(&bytes);
    }

    #[test]
    fn requests_come_back(
        headers in any_headers(), flags in any::<u16>(), command in any::<u16>(),
        cookie in any::<u64>(), offset in any::<u64>(), length in any::<u32>(),
    ) {
        let request = Request {
            flags: CommandFlags::from_bits_retain(flags),
            command,
            cookie,
            offset,
            length: length.into(),
        };
        let bytes = request.encode(headers);
        prop_assert_eq!(bytes.len(), Request::bytes(headers));
        prop_assert_eq!(Request::decode(headers, &bytes), Ok(request));
        prop_assert!(Request::decode(headers, &bytes[1..]).is_err());
    }

    #[test]
    fn chunks_come_back(
        extended in any::<bool>(), flags in any::<u16>(), kind in any::<u16>(),
        cookie in any::<u64>(), length in any::<u32>(), offset in any::<u64>(),
    ) {
        let headers = if extended { Headers::Extended } else { Headers::Structured };
        let chunk = Chunk {
            flags: ReplyFlags::from_bits_retain(flags),
            kind,
            cookie,
            length,
            request_offset: extended.then_some(offset),
        };
        let bytes = chunk.encode(headers);
        let magic = *bytes.first_chunk().unwrap();
        prop_assert_eq!(ReplyHeader::bytes(headers, magic), Ok(bytes.len()));
        prop_assert_eq!(ReplyHeader::decode(&bytes), Ok(ReplyHeader::Chunk(chunk)));
        prop_assert!(ReplyHeader::bytes(Headers::Simple, magic).is_err());
    }

    #[test]
    fn names_and_queries_come_back(
        name in "[^\0]{0,40}", queries in prop::collection::vec("[a-z:]{0,20}", 0..10),
    ) {
        let request = MetaContextRequest { name: name.clone(), queries };
        prop_assert_eq!(MetaContextRequest::decode(&request.encode()), Ok(request.clone()));
        let requests = vec![InfoType::BlockSize, InfoType::Name];
        let info = InfoRequest { name: name.clone(), requests };
        prop_assert_eq!(InfoRequest::decode(&info.encode()), Ok(info.clone()));
        let server = ServerReply { name: name.clone(), description: name.clone() };
        prop_assert_eq!(ServerReply::decode(&server.encode()), Ok(server.clone()));
        let context = MetaContextReply { id: 7, name };
        prop_assert_eq!(MetaContextReply::decode(&context.encode()), Ok(context.clone()));
    }

    #[test]
    fn block_statuses_come_back(
        extended in any::<bool>(), context in any::<u32>(),
        runs in prop::collection::vec((1..=u32::MAX, any::<u32>()), 1..20),
    ) {
        let headers = if extended { Headers::Extended } else { Headers::Structured };
        let runs: Vec<_> = runs
            .into_iter()
            .map(|(len, flags)| BlockDescriptor { len_bytes: len.into(), flags: flags.into() })
            .collect();
        let status = BlockStatus { context, runs };
        let bytes = status.encode(headers);
        prop_assert_eq!(bytes.len(), BlockStatus::bytes(headers, status.runs.len()));
        prop_assert_eq!(BlockStatus::decode(headers, &bytes), Ok(status));
        prop_assert!(BlockStatus::decode(headers, &bytes[..bytes.len() - 1]).is_err());
    }
}

#[test]
fn the_greeting_is_that_of_the_specification() {
    let flags = HandshakeFlags::all();
    let bytes = Greeting { flags }.encode();
    assert_eq!(bytes, b"NBDMAGICIHAVEOPT\0\x03");
    assert_eq!(Greeting::decode(&bytes), Ok(Greeting { flags }));
    let oldstyle = b"NBDMAGIC\0\0\x42\x02\x81\x86\x12\x53\0\0";
    let refused = Greeting::decode(oldstyle).unwrap_err();
    assert!(refused.to_string().contains("oldstyle"), "{refused}");
}

#[test]
fn infos_come_back_and_unknown_ones_are_ignored() {
    let infos = [
        Info::Export {
            size_bytes: 1 << 40,
            flags: TransmissionFlags::HAS_FLAGS | TransmissionFlags::SEND_DF,
        },
        Info::Name("disk".into()),
        Info::Description(String::new()),
        Info::BlockSize {
            minimum: 1,
            preferred: 4096,
            maximum: MAX_PAYLOAD_BYTES,
        },
    ];
    for info in infos {
        assert_eq!(Info::decode(&info.encode()), Ok(Some(info)));
    }
    assert_eq!(Info::decode(&[0x12, 0x34, 1]), Ok(None));
    assert!(Info::decode(&[0, 0, 1]).is_err());
}

#[test]
fn options_are_bounded() {
    let bytes = OptionRequest::encode(OptionCode::Go, b"abc");
    let header = OptionRequest::decode(&bytes[..OptionRequest::BYTES]).unwrap();
    assert_eq!((header.option, header.length), (7, 3));
    let mut long = bytes[..OptionRequest::BYTES].to_vec();
    long[12..].copy_from_slice(&(MAX_OPTION_BYTES + 1).to_be_bytes());
    assert!(OptionRequest::decode(&long).is_err());

    let bytes = OptionReply::encode(7, ReplyType::TlsRequired, b"");
    let header = OptionReply::decode(&bytes).unwrap();
    assert!(ReplyType::is_error(header.reply_type));
    let mut long = bytes;
    long[16..].copy_from_slice(&(MAX_OPTION_BYTES + 1).to_be_bytes());
    assert!(OptionReply::decode(&long).is_err());

    let many = MetaContextRequest {
        name: String::new(),
        queries: vec![String::new(); MAX_QUERIES + 1],
    };
    assert!(MetaContextRequest::decode(&many.encode()).is_err());
    let long = InfoRequest {
        name: "x".repeat(MAX_STRING_BYTES + 1),
        requests: Vec::new(),
    };
    assert!(InfoRequest::decode(&long.encode()).is_err());
}

#[test]
fn errors_have_a_message_and_a_place() {
    for offset in [None, Some(4096)] {
        let error = ErrorChunk {
            error: ErrorNumber::Io.number(),
            message: "no".into(),
            offset,
        };
        let number = error.chunk_type().number();
        assert!(ChunkType::is_error(number));
        assert_eq!(ErrorChunk::decode(number, &error.encode()), Ok(error));
    }
    let long = ErrorChunk {
        error: 5,
        message: "é".repeat(MAX_STRING_BYTES),
        offset: None,
    };
    let back = ErrorChunk::decode(0x8001, &long.encode()).unwrap();
    assert_eq!(back.message.len(), MAX_STRING_BYTES);
    assert!(ErrorChunk::decode(0x8001, &[0; 6]).is_err());
    assert!(ErrorChunk::decode(0x8001, &[0, 0, 0, 5, 0, 1]).is_err());
}

#[test]
fn a_filter_names_each_context_once() {
    let mut filter = StatusFilter {
        len_bytes: 1 << 33,
        contexts: vec![1, 2],
    };
    assert_eq!(StatusFilter::decode(&filter.encode()), Ok(filter.clone()));
    filter.contexts.push(1);
    assert!(StatusFilter::decode(&filter.encode()).is_err());
    filter.contexts = (0..=64).collect();
    assert!(StatusFilter::decode(&filter.encode()).is_err());
}

#[test]
fn a_reply_to_an_export_name_may_have_zeroes() {
    let reply = ExportNameReply {
        size_bytes: 512,
        flags: TransmissionFlags::READ_ONLY,
    };
    for (zeroes, len) in [(true, 134), (false, 10)] {
        let bytes = reply.encode(zeroes);
        assert_eq!(bytes.len(), len);
        assert_eq!(ExportNameReply::decode(&bytes), Ok(reply));
    }
}
