//! Skeletons of names: names with equal skeletons look alike.
//!
//! A skeleton is a comparison key, never shown and never stored. Source: UTS #39 section 4 (the transform there called
//! internalSkeleton: the reordering of right-to-left text is not part of it), tables by `unicode-security`.

/// The skeleton of `name`: canonically decomposed, default-ignorable code points removed, each code point replaced by
/// its prototype, decomposed again. Case is kept, so a caller that ignores case must fold first.
///
/// Linear in the length of `name`; one code point becomes at most a few dozen.
///
/// ```
/// use namegate_core::name::confusable::skeleton;
/// assert_eq!(skeleton("pаypal"), skeleton("paypal")); // the first has U+0430
/// assert_eq!(skeleton("re\u{200B}port"), skeleton("report"));
/// assert_ne!(skeleton("Report"), skeleton("report"));
/// ```
pub fn skeleton(name: &str) -> String {
    let mut key = String::with_capacity(name.len());
    key.extend(unicode_security::skeleton(name));
    key
}

#[cfg(test)]
mod tests;
