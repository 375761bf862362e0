//! Reading just as much of a request as answering it takes.

use memchr::memmem;

/// The prefix of a frame: length, serialize type and header length.
const PREFIX: usize = 8;

/// One request in the read buffer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Request<'a> {
    /// Whether the header is binary.
    pub(super) binary: bool,
    /// The request code.
    pub(super) code: i32,
    /// What the answer has to repeat.
    pub(super) opaque: i32,
    /// Whether no answer is wanted.
    pub(super) one_way: bool,
    /// The body.
    pub(super) body: &'a [u8],
    header: &'a [u8],
}

impl<'a> Request<'a> {
    /// The request at the start of `bytes` and its length in bytes; `None` while it is not whole.
    ///
    /// # Errors
    ///
    /// Bytes that are no request: the connection cannot go on.
    pub(super) fn read(bytes: &'a [u8]) -> Result<Option<(Self, usize)>, &'static str> {
        let Some((prefix, rest)) = bytes.split_first_chunk::<PREFIX>() else { return Ok(None) };
        let [a, b, c, d, kind, e, f, g] = *prefix;
        let length = u32::from_be_bytes([a, b, c, d]) as usize + 4;
        let header_length = u32::from_be_bytes([0, e, f, g]) as usize;
        if !(PREFIX + header_length..=16 << 20).contains(&length) {
            return Err("frame length");
        }
        let Some(frame) = rest.get(..length - PREFIX) else { return Ok(None) };
        let (header, body) = frame.split_at(header_length);
        let request = if kind == 0 { Self::json(header, body)? } else { Self::binary(header, body)? };
        Ok(Some((request, length)))
    }

    fn binary(header: &'a [u8], body: &'a [u8]) -> Result<Self, &'static str> {
        // code (2), language (1), version (2), opaque (4), flag (4), then remark and fields, each with a length (4).
        let fixed = header.first_chunk::<13>().ok_or("binary header")?;
        let flag = i32::from_be_bytes([fixed[9], fixed[10], fixed[11], fixed[12]]);
        Ok(Self {
            binary: true,
            code: i16::from_be_bytes([fixed[0], fixed[1]]).into(),
            opaque: i32::from_be_bytes([fixed[5], fixed[6], fixed[7], fixed[8]]),
            one_way: flag & 2 != 0,
            body,
            header,
        })
    }

    /// Finds the fields by their quoted names. Inside a string every quote has a backslash before it, so that
    /// `"name":` cannot be part of one.
    fn json(header: &'a [u8], body: &'a [u8]) -> Result<Self, &'static str> {
        let number =
            |name: &str| memmem::find(header, name.as_bytes()).map(|at| leading_integer(&header[at + name.len()..]));
        Ok(Self {
            binary: false,
            code: number("\"code\":").ok_or("code")?,
            opaque: number("\"opaque\":").ok_or("opaque")?,
            one_way: number("\"flag\":").unwrap_or(0) & 2 != 0,
            body,
            header,
        })
    }

    /// The value of a field, as it stands in the header.
    #[must_use]
    pub(super) fn field(&self, name: &str) -> Option<&'a str> {
        let value = if self.binary { self.binary_field(name) } else { self.json_field(name) }?;
        std::str::from_utf8(value).ok()
    }

    /// The value of a numeric field, 0 without it.
    #[must_use]
    pub(super) fn number(&self, name: &str) -> i64 {
        self.field(name).and_then(|text| text.parse().ok()).unwrap_or(0)
    }

    /// What an answer later needs of it.
    #[must_use]
    pub(super) fn without_fields(&self) -> Request<'static> {
        Request { header: &[], body: &[], ..*self }
    }

    fn binary_field(&self, name: &str) -> Option<&'a [u8]> {
        let remark = self.header.get(13..)?.first_chunk::<4>()?;
        let mut rest = self.header.get(17 + u32::from_be_bytes(*remark) as usize + 4..)?;
        loop {
            let (length, after) = rest.split_first_chunk::<2>()?;
            let (key, after) = after.split_at_checked(u16::from_be_bytes(*length).into())?;
            let (length, after) = after.split_first_chunk::<4>()?;
            let (value, after) = after.split_at_checked(u32::from_be_bytes(*length) as usize)?;
            if key == name.as_bytes() {
                return Some(value);
            }
            rest = after;
        }
    }

    fn json_field(&self, name: &str) -> Option<&'a [u8]> {
        let mut from = 0;
        loop {
            let at = from + memmem::find(&self.header[from..], name.as_bytes())?;
            let end = at + name.len();
            from = end;
            if at > 0 && self.header[at - 1] == b'"' && self.header[end..].starts_with(b"\":\"") {
                let value = &self.header[end + 3..];
                return value.get(..memchr::memchr(b'"', value)?);
            }
        }
    }
}

fn leading_integer(text: &[u8]) -> i32 {
    let end = text.iter().position(|byte| !matches!(byte, b'-' | b'0'..=b'9')).unwrap_or(text.len());
    std::str::from_utf8(&text[..end]).ok().and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_json_request_is_read_without_being_parsed() {
        let header = br#"{"code":310,"extFields":{"b":"T","i":"k\u0001\"opaque\":9","e":"3"},"flag":2,"opaque":-7}"#;
        let mut frame = ((4 + header.len() + 2) as u32).to_be_bytes().to_vec();
        frame.extend_from_slice(&(header.len() as u32).to_be_bytes());
        frame.extend_from_slice(header);
        frame.extend_from_slice(b"hi");
        for end in 0..frame.len() {
            assert!(Request::read(&frame[..end]).unwrap().is_none());
        }
        let (request, length) = Request::read(&frame).unwrap().unwrap();
        assert_eq!((request.code, request.opaque, request.one_way, request.body), (310, -7, true, &b"hi"[..]));
        assert_eq!((request.field("b"), request.number("e"), length), (Some("T"), 3, frame.len()));
    }

    #[test]
    fn a_binary_request_is_read() {
        let mut header = vec![1, 54, 0, 1, 223, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 16];
        for (key, value) in [("b", "T"), ("e", "2")] {
            header.extend_from_slice(&[0, key.len() as u8]);
            header.extend_from_slice(key.as_bytes());
            header.extend_from_slice(&[0, 0, 0, value.len() as u8]);
            header.extend_from_slice(value.as_bytes());
        }
        let mut frame = ((4 + header.len()) as u32).to_be_bytes().to_vec();
        frame.extend_from_slice(&[1, 0, 0, header.len() as u8]);
        frame.extend_from_slice(&header);
        let (request, _) = Request::read(&frame).unwrap().unwrap();
        assert_eq!((request.code, request.opaque, request.one_way), (310, 9, false));
        assert_eq!((request.field("b"), request.number("e"), request.field("x")), (Some("T"), 2, None));
        assert!(Request::read(&[0, 0, 0, 3, 0, 0, 0, 0]).is_err());
    }
}
