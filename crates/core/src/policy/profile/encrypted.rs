//! File systems that encrypt names. An encrypted name is longer than its text, so less fits.

use super::base::{ONE_KIND, UTF8};
use super::{Form, Limit, Profile, ProfileRule, Test, Unit};

/// eCryptfs with encrypted names, as encrypted shared folders of Synology are.
pub static ECRYPTFS: Profile = Profile {
    name: "ecryptfs",
    title: "eCryptfs with encrypted names, such as encrypted shared folders of Synology",
    includes: &[&UTF8],
    rules: &[
        ProfileRule::error(
            Test::Length(Limit { max: 143, unit: Unit::Bytes }),
            "Linux fs/ecryptfs/crypto.c (ENC_NAME_MAX_BLOCKLEN_8_OR_16)",
        ),
        ONE_KIND,
    ],
};

/// Vaults of Cryptomator, formats 7 and 8. An encrypted name of more than 220 characters is shortened and kept in a file of its own:
/// base64 of 16 bytes more than the name, and `.c9r`.
pub static CRYPTOMATOR: Profile = Profile {
    name: "cryptomator",
    title: "vaults of Cryptomator",
    includes: &[&UTF8],
    rules: &[
        ProfileRule::warn(
            Test::Length(Limit { max: 146, unit: Unit::BytesIn(Form::Nfc) }),
            "a longer name is stored in a file of its own: cryptofs, CryptoFileSystemProperties.java (shorteningThreshold, 220)",
        ),
        ProfileRule::unverified(
            Test::SameForm(Form::Nfc),
            "the virtual drive converts names to NFC; what becomes of two such names was not tried",
        ),
        ONE_KIND,
    ],
};
