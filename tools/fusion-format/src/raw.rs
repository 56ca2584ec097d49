// SPDX-License-Identifier: GPL-2.0-only
//! The module's on-disk structures from bytes, and back.

/// The structure that `bytes`, as many as it has, are.
///
/// # Safety
/// It consists of integers only: any bytes are valid.
///
/// # Panics
/// If there are more or fewer bytes.
pub unsafe fn from_bytes<T: Default>(bytes: &[u8]) -> Box<T> {
    assert_eq!(bytes.len(), size_of::<T>(), "all of it");
    let mut raw = Box::<T>::default();
    // SAFETY: both sides are that long, and the caller says that any bytes will do.
    unsafe {
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), (&raw mut *raw).cast::<u8>(), bytes.len());
    }
    raw
}

/// The bytes of a structure.
///
/// # Safety
/// It consists of integers only, without padding.
pub unsafe fn to_bytes<T>(raw: &T) -> Vec<u8> {
    // SAFETY: as many bytes as it has, all initialised, as the caller says.
    unsafe { std::slice::from_raw_parts((&raw const *raw).cast::<u8>(), size_of::<T>()) }.to_vec()
}
