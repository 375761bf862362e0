//! Numbers in the values of properties, read as Java reads them.

/// The first digit of each row of ten in other scripts that Java takes for digits.
const DIGIT_ROWS: [u32; 36] = [
    0x0660, 0x06F0, 0x07C0, 0x0966, 0x09E6, 0x0A66, 0x0AE6, 0x0B66, 0x0BE6, 0x0C66, 0x0CE6, 0x0D66, 0x0DE6, 0x0E50,
    0x0ED0, 0x0F20, 0x1040, 0x1090, 0x17E0, 0x1810, 0x1946, 0x19D0, 0x1A80, 0x1A90, 0x1B50, 0x1BB0, 0x1C40, 0x1C50,
    0xA620, 0xA8D0, 0xA900, 0xA9D0, 0xA9F0, 0xAA50, 0xABF0, 0xFF10,
];

/// A whole number of 32 bits, as `Integer.valueOf` reads it: an optional sign and digits of any script.
pub(super) fn integer(text: &str) -> Option<i32> {
    long(text).and_then(|value| i32::try_from(value).ok())
}

/// A whole number of 64 bits, as `Long.valueOf` reads it.
pub(super) fn long(text: &str) -> Option<i64> {
    if text.is_ascii() {
        return text.parse().ok();
    }
    let digits = text.chars().map(|character| match character {
        '+' | '-' => Some(character),
        _ => digit(character).and_then(|digit| char::from_digit(digit, 10)),
    });
    digits.collect::<Option<String>>()?.parse().ok()
}

fn digit(character: char) -> Option<u32> {
    character.to_digit(10).or_else(|| {
        let row = DIGIT_ROWS.iter().find(|row| (**row..**row + 10).contains(&u32::from(character)))?;
        Some(u32::from(character) - row)
    })
}

/// A number with a fraction, as `Double.valueOf` reads it: blanks around it, a letter for the type behind it, `NaN`
/// and `Infinity`, and hexadecimal digits with an exponent.
pub(super) fn double(text: &str) -> Option<f64> {
    let text = text.trim_matches(|character| character <= ' ');
    let (negative, unsigned) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let value = match unsigned {
        "NaN" => f64::NAN,
        "Infinity" => f64::INFINITY,
        _ => {
            let number = unsigned.strip_suffix(['d', 'D', 'f', 'F']).unwrap_or(unsigned);
            match number.strip_prefix("0x").or_else(|| number.strip_prefix("0X")) {
                // The letters of the type are hexadecimal digits too, but an exponent stands before them.
                Some(hexadecimal) => hexadecimal_double(hexadecimal)?,
                None if is_decimal(number) => number.parse().ok()?,
                None => return None,
            }
        }
    };
    Some(if negative { -value } else { value })
}

/// Digits with at most one point and at least one digit, then maybe an exponent.
fn is_decimal(text: &str) -> bool {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (text, None),
    };
    is_mantissa(mantissa, |byte| byte.is_ascii_digit())
        && exponent.is_none_or(|exponent| exponent_of(exponent).is_some())
}

fn is_mantissa(text: &str, is_digit: impl Fn(u8) -> bool) -> bool {
    let points = text.bytes().filter(|byte| *byte == b'.').count();
    points <= 1 && text.len() > points && text.bytes().all(|byte| byte == b'.' || is_digit(byte))
}

/// An exponent, limited to what makes a difference.
fn exponent_of(text: &str) -> Option<i32> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let size = digits.parse::<i32>().unwrap_or(i32::MAX).min(100_000);
    Some(if text.starts_with('-') { -size } else { size })
}

fn hexadecimal_double(text: &str) -> Option<f64> {
    let (mantissa, exponent) = text.split_once(['p', 'P'])?;
    if !is_mantissa(mantissa, |byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let (mut value, mut scale) = (0.0, 0);
    let mut behind_point = false;
    for character in mantissa.chars() {
        match character.to_digit(16) {
            Some(digit) => {
                value = value * 16.0 + f64::from(digit);
                scale -= if behind_point { 4 } else { 0 };
            }
            None => behind_point = true,
        }
    }
    Some(value * 2_f64.powi(exponent_of(exponent)?.saturating_add(scale)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_are_read_as_java_does() {
        assert_eq!([integer("3"), integer("+3"), integer("-2147483648")], [Some(3), Some(3), Some(i32::MIN)]);
        assert_eq!([integer("٣"), integer("-３4")], [Some(3), Some(-34)]);
        for wrong in ["", " 3", "3 ", "3.0", "2147483648", "0x3", "3L", "+", "é"] {
            assert_eq!(integer(wrong), None, "{wrong}");
        }
        assert_eq!((long("2147483648"), long("9223372036854775808")), (Some(2_147_483_648), None));
    }

    #[test]
    fn fractions_are_read_as_java_does() {
        for (text, value) in [
            ("3", 3.0),
            (" 3.5\t", 3.5),
            ("-.5e1", -5.0),
            ("3.d", 3.0),
            ("1e2F", 100.0),
            ("Infinity", f64::INFINITY),
            ("-Infinity", f64::NEG_INFINITY),
            ("0x1.8p1", 3.0),
            ("0xFp-1d", 7.5),
            ("1e99999", f64::INFINITY),
        ] {
            assert_eq!(double(text), Some(value), "{text}");
        }
        assert!(double("NaN").is_some_and(f64::is_nan) && double("-NaN").is_some_and(f64::is_nan));
        for wrong in ["", " ", ".", "abc", "inf", "nan", "0x3", "1e", "1_0", "3dd", "--3", "1 2", "infinity", "٣"] {
            assert_eq!(double(wrong), None, "{wrong}");
        }
    }
}
