//! The hash by which OpenSSL finds a certificate: the SHA-1 of the subject in a canonical form
//! (`X509_NAME_hash_ex` and `x509_name_canon` in OpenSSL's `crypto/x509`).

use base64ct::{Base64, Encoding};
use der::asn1::AnyRef;
use der::{Decode, Encode, Reader, SliceReader, Tag, Tagged};
use sha1::{Digest, Sha1};

/// Returns the hash of the subject of a certificate in PEM form, or `None` if the text is not a
/// valid certificate.
pub(super) fn of_pem(pem: &str) -> Option<u32> {
    let lines = pem.lines().map(str::trim);
    let base64: String = lines.filter(|line| !line.starts_with("-----")).collect();
    of_certificate(&Base64::decode_vec(&base64).ok()?)
}

fn of_certificate(certificate: &[u8]) -> Option<u32> {
    let certificate = value(&mut SliceReader::new(certificate).ok()?, Tag::Sequence)?;
    let signed = value(&mut SliceReader::new(certificate).ok()?, Tag::Sequence)?;
    let mut signed = SliceReader::new(signed).ok()?;
    let mut field = AnyRef::decode(&mut signed).ok()?;
    // A certificate of version 1 has no version field.
    if field.tag().is_context_specific() {
        field = AnyRef::decode(&mut signed).ok()?;
    }
    // Serial number, algorithm, issuer, validity, subject (RFC 5280, section 4.1).
    if field.tag() != Tag::Integer {
        return None;
    }
    for _ in 0..3 {
        AnyRef::decode(&mut signed).ok()?;
    }
    let name = canonical(value(&mut signed, Tag::Sequence)?)?;
    let digest = Sha1::digest(name);
    Some(u32::from_le_bytes(*digest.first_chunk()?))
}

fn value<'d>(reader: &mut SliceReader<'d>, tag: Tag) -> Option<&'d [u8]> {
    let any = AnyRef::decode(reader).ok()?;
    (any.tag() == tag).then(|| any.value())
}

/// Returns a name in canonical form: without its outer header, with its strings in UTF-8, in lower
/// case and with single spaces.
fn canonical(name: &[u8]) -> Option<Vec<u8>> {
    let mut reader = SliceReader::new(name).ok()?;
    let mut out = Vec::new();
    while !reader.is_finished() {
        let mut set = SliceReader::new(value(&mut reader, Tag::Set)?).ok()?;
        let mut attributes = Vec::new();
        while !set.is_finished() {
            attributes.push(attribute(value(&mut set, Tag::Sequence)?)?);
        }
        // DER sorts the elements of a set.
        attributes.sort();
        out.extend(encoded(Tag::Set, &attributes.concat())?);
    }
    Some(out)
}

fn attribute(pair: &[u8]) -> Option<Vec<u8>> {
    let mut reader = SliceReader::new(pair).ok()?;
    let kind = value(&mut reader, Tag::ObjectIdentifier)?;
    let text = AnyRef::decode(&mut reader).ok()?;
    let mut pair = encoded(Tag::ObjectIdentifier, kind)?;
    pair.extend(match utf8(&text) {
        Some(text) => encoded(Tag::Utf8String, &plain(&text))?,
        None => text.to_der().ok()?,
    });
    encoded(Tag::Sequence, &pair)
}

fn encoded(tag: Tag, value: &[u8]) -> Option<Vec<u8>> {
    AnyRef::new(tag, value).ok()?.to_der().ok()
}

/// Returns the text of those kinds of strings that have a canonical form.
fn utf8(any: &AnyRef<'_>) -> Option<String> {
    let latin = |bytes: &[u8]| bytes.iter().map(|byte| char::from(*byte)).collect();
    let bytes = any.value();
    match any.tag() {
        Tag::Utf8String => String::from_utf8(bytes.to_vec()).ok(),
        Tag::PrintableString | Tag::TeletexString | Tag::Ia5String | Tag::VisibleString => {
            Some(latin(bytes))
        }
        Tag::BmpString => {
            let (pairs, rest) = bytes.as_chunks();
            let units: Vec<u16> = pairs.iter().map(|pair| u16::from_be_bytes(*pair)).collect();
            rest.is_empty().then(|| String::from_utf16(&units).ok())?
        }
        _ => None,
    }
}

/// Returns the text in lower case and with single spaces. Only ASCII characters count as letters
/// and spaces here.
fn plain(text: &str) -> Vec<u8> {
    let is_space = |c: char| matches!(c, ' ' | '\t' | '\n' | '\x0b' | '\x0c' | '\r');
    let words: Vec<&str> = text
        .split(is_space)
        .filter(|word| !word.is_empty())
        .collect();
    words.join(" ").to_ascii_lowercase().into_bytes()
}
