//! SipHash-1-3 with a zero key: what the reference's jitter was computed with. Fixed here, because the standard library does not
//! promise its hasher's values.

/// The hash of `bytes`.
pub(crate) fn siphash13(bytes: &[u8]) -> u64 {
    let mut state = State {
        v0: 0x736f_6d65_7073_6575,
        v1: 0x646f_7261_6e64_6f6d,
        v2: 0x6c79_6765_6e65_7261,
        v3: 0x7465_6462_7974_6573,
    };
    let (words, tail) = bytes.as_chunks::<8>();
    for word in words {
        state.absorb(u64::from_le_bytes(*word));
    }
    // The last word: what is left, and the length in the top byte.
    let mut last = (bytes.len() as u64) << 56;
    for (place, byte) in tail.iter().enumerate() {
        last |= u64::from(*byte) << (8 * place);
    }
    state.absorb(last);
    state.v2 ^= 0xff;
    for _ in 0..3 {
        state.round();
    }
    state.v0 ^ state.v1 ^ state.v2 ^ state.v3
}

struct State {
    v0: u64,
    v1: u64,
    v2: u64,
    v3: u64,
}

impl State {
    fn absorb(&mut self, word: u64) {
        self.v3 ^= word;
        self.round();
        self.v0 ^= word;
    }

    fn round(&mut self) {
        self.v0 = self.v0.wrapping_add(self.v1);
        self.v1 = self.v1.rotate_left(13) ^ self.v0;
        self.v0 = self.v0.rotate_left(32);
        self.v2 = self.v2.wrapping_add(self.v3);
        self.v3 = self.v3.rotate_left(16) ^ self.v2;
        self.v0 = self.v0.wrapping_add(self.v3);
        self.v3 = self.v3.rotate_left(21) ^ self.v0;
        self.v2 = self.v2.wrapping_add(self.v1);
        self.v1 = self.v1.rotate_left(17) ^ self.v2;
        self.v2 = self.v2.rotate_left(32);
    }
}
