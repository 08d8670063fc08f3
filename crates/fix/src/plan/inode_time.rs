//! The times of inodes, as the lines of plans and journals have them.

use std::fmt;
use std::str::FromStr;

use namegate_files::json::parse_text;
use namegate_sys::stat::Time;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A time of an inode, as stat(2) returns it. Written as `SECONDS.NNNNNNNNN`, the seconds with their sign.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InodeTime {
    /// Whole seconds since the epoch.
    pub seconds: i64,
    /// Additional nanoseconds, below 1,000,000,000.
    pub nanoseconds: u32,
}

/// The longest text: a sign, 19 digits, a point, and ten digits of a number of nanoseconds that no file system has.
const MAX_TEXT: usize = 31;

impl InodeTime {
    /// Writes the text to the end of `buffer`, and returns it. A line of a plan has three times, so this avoids the cost of
    /// formatting.
    fn write_to(self, buffer: &mut [u8; MAX_TEXT]) -> &str {
        let mut at = MAX_TEXT;
        let mut push = |byte: u8| {
            at -= 1;
            buffer[at] = byte;
        };
        let (mut nanoseconds, mut digits) = (self.nanoseconds, 0);
        while digits < 9 || nanoseconds > 0 {
            push(b'0' + (nanoseconds % 10) as u8);
            nanoseconds /= 10;
            digits += 1;
        }
        push(b'.');
        let mut seconds = self.seconds.unsigned_abs();
        loop {
            push(b'0' + (seconds % 10) as u8);
            seconds /= 10;
            if seconds == 0 {
                break;
            }
        }
        if self.seconds < 0 {
            push(b'-');
        }
        std::str::from_utf8(&buffer[at..]).expect("digits are ASCII")
    }
}

impl From<Time> for InodeTime {
    fn from(Time { seconds, nanoseconds }: Time) -> Self {
        Self { seconds, nanoseconds }
    }
}

impl fmt::Display for InodeTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.write_to(&mut [0; MAX_TEXT]))
    }
}

impl FromStr for InodeTime {
    type Err = String;

    /// # Errors
    /// The text is not what [`Display`](fmt::Display) writes.
    fn from_str(text: &str) -> Result<Self, String> {
        let parse = || {
            let (seconds, nanoseconds) = text.split_once('.')?;
            let time = Self { seconds: seconds.parse().ok()?, nanoseconds: nanoseconds.parse().ok()? };
            // `+1`, `01`, `-0` and `.5` are other spellings, which nothing writes.
            (time.write_to(&mut [0; MAX_TEXT]) == text).then_some(time)
        };
        parse().ok_or_else(|| format!("`{text}` is not a time as SECONDS.NNNNNNNNN"))
    }
}

impl Serialize for InodeTime {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.write_to(&mut [0; MAX_TEXT]))
    }
}

impl<'de> Deserialize<'de> for InodeTime {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        parse_text(deserializer, |text| text.parse())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_is_written_as_the_standard_library_would() {
        for seconds in [i64::MIN, -1, 0, 9, 10, 1_700_000_000, i64::MAX] {
            for nanoseconds in [0, 7, 999_999_999, 1_000_000_000, u32::MAX] {
                let time = InodeTime { seconds, nanoseconds };
                assert_eq!(time.to_string(), format!("{seconds}.{nanoseconds:09}"));
                assert_eq!(time.to_string().parse(), Ok(time));
            }
        }
    }
}
