//! Time stamps in files, records and messages: RFC 3339, in UTC.

use std::time::SystemTime;

use jiff::Timestamp;

/// Formats `time` with the full resolution of the clock.
///
/// ```
/// use std::time::{Duration, UNIX_EPOCH};
/// assert_eq!(namegate_files::time::timestamp(UNIX_EPOCH + Duration::from_millis(1500)), "1970-01-01T00:00:01.5Z");
/// ```
pub fn timestamp(time: SystemTime) -> String {
    // No clock of a running system is outside of the years -9999 to 9999.
    Timestamp::try_from(time).unwrap_or_default().to_string()
}

/// Formats the current time with a resolution of seconds.
pub fn timestamp_of_now() -> String {
    Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
