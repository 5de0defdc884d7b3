// Coefficients of the vector math functions. Made by tools/minimax.py, not by hand: edit that and run it again.
#pragma once

#include <sinter/base/config.hpp>

#include <cstdint>

SINTER_NAMESPACE_BEGIN
namespace x86::coefficients_f32 {

// (e^r - 1 - r) / r^2, |r| <= ln(2)/2. Relative error 2^-26.1.
inline constexpr double expm1[] = {
    0x1.fffffe0000000p-2, 0x1.5554b40000000p-3, 0x1.5556f20000000p-5, 0x1.1225460000000p-7, 0x1.6b9c6e0000000p-10,
};
// (log(1 + f) - f + f^2/2) / f^3, sqrt(1/2) <= 1 + f <= sqrt(2). Relative error 2^-27.4.
inline constexpr double log[] = {
    0x1.5555540000000p-2, -0x1.0002260000000p-2, 0x1.99a01c0000000p-3, -0x1.54728c0000000p-3,
    0x1.22d9340000000p-3, -0x1.0d822e0000000p-3, 0x1.055e760000000p-3, -0x1.38c9680000000p-4,
};
// (sin(r) - r) / r^3 in r^2, |r| <= pi/2. Relative error 2^-26.7.
inline constexpr double sin[] = {
    -0x1.5555480000000p-3,
    0x1.110e320000000p-7,
    -0x1.9f51b40000000p-13,
    0x1.5c0b480000000p-19,
};
// 8 * (1 - erfc(a)^(1/8)) / a - 1, 0 <= a <= 3.93 (f32), 5.95 (f64). Relative error 2^-27.0.
inline constexpr double erf[] = {
    0x1.06eba80000000p-3,   0x1.1d34b60000000p-1, 0x1.11d4a40000000p-6,   -0x1.afda580000000p-5,
    -0x1.8669dc0000000p-10, 0x1.0cc5be0000000p-8, -0x1.7486e00000000p-11, 0x1.41bf820000000p-15,
};
// ((2 * atanh(s)/s - 2) / z - 2/3) / z in z = s^2, s <= (sqrt(2)-1) / (sqrt(2)+1). Relative error 2^-43.7.
inline constexpr double atanh[] = {
    0x1.9999980000000p-2,
    0x1.2493b60000000p-2,
    0x1.c63da80000000p-3,
    0x1.9083fe0000000p-3,
};
// Phi(-a) e^(a^2/2) (1 + a/4) in a / (1 + a/4) - 2, a <= 15 (f32), or a/6 and - 3.5, a <= 39 (f64). Relative error
// 2^-25.7.
inline constexpr double normal_tail[] = {
    0x1.82b4bc0000000p-3,  -0x1.373e3a0000000p-4,  0x1.8c6d7a0000000p-6,   -0x1.7dff6c0000000p-8,
    0x1.eedeb80000000p-11, -0x1.ed86b00000000p-15, -0x1.ceb5a40000000p-17, 0x1.9c64300000000p-19,
    0x1.a543c00000000p-23, -0x1.00dd6e0000000p-24,
};
// 1 / ln(2).
inline constexpr double log2_e = 0x1.7154760000000p+0;
// ln(2) in two parts; their sum is right to twice the precision.
inline constexpr double ln2[] = {
    0x1.62e4300000000p-1,
    -0x1.05c6100000000p-29,
};
// The same; the first part times any exponent is exact.
inline constexpr double ln2_short[] = {
    0x1.62e4000000000p-1,
    0x1.7f7d1c0000000p-20,
};
// 1 / pi.
inline constexpr double inverse_pi = 0x1.45f3060000000p-2;
// pi in three parts (Cody and Waite), all positive, so that -0 stays -0.
inline constexpr double pi[] = {
    0x1.921fb40000000p+1,
    0x1.4442d00000000p-23,
    0x1.8469880000000p-47,
};
// 2/3 in two parts.
inline constexpr double two_thirds[] = {
    0x1.5555560000000p-1,
    -0x1.5555560000000p-26,
};
// From here on tanh is 1, in f32.
inline constexpr double tanh_end = 0x1.20f5060000000p+3;
// v = 2 + a * tanh_scale tells by three of its bits, half octaves from 2 to 32, which of eight polynomials has tanh(a).
inline constexpr double tanh_scale = 0x1.a93fca0000000p+1;
// A column for each: its centre, and its coefficients in a - centre from the lowest on. Error 1.18 ulp.
inline constexpr float tanh_pieces[8][8] = {
    {0x0.0p+0f, 0x1.c8c0400p-2f, 0x1.c7cd5a0p-1f, 0x1.7e28dc0p+0f, 0x1.30c6900p+1f, 0x1.cb54f60p+1f, 0x1.57cdca0p+2f,
     0x1.f12df40p+2f},
    {0x0.0p+0f, 0x1.acb0d40p-2f, 0x1.6c4b3e0p-1f, 0x1.cec4340p-1f, 0x1.f752520p-1f, 0x1.ff37e60p-1f, 0x1.fffa580p-1f,
     0x1.fffff40p-1f},
    {0x1.0000000p+0f, 0x1.a644080p-1f, 0x1.f99a260p-2f, 0x1.76ee560p-3f, 0x1.135b360p-5f, 0x1.8feb820p-9f,
     0x1.6baa8a0p-14f, 0x1.81bbfe0p-21f},
    {-0x1.5546460p-19f, -0x1.618eb20p-2f, -0x1.67bdc20p-2f, -0x1.52e12c0p-3f, -0x1.0eaec00p-5f, -0x1.8f45da0p-9f,
     -0x1.6a20f20p-14f, -0x1.7ff6240p-21f},
    {-0x1.55352a0p-2f, -0x1.0b00900p-3f, 0x1.5d6b560p-4f, 0x1.6abd2e0p-4f, 0x1.5ca1fa0p-6f, 0x1.08ddd60p-9f,
     0x1.d015460p-15f, 0x1.ecd3180p-22f},
    {-0x1.fa75880p-10f, 0x1.5b74260p-3f, 0x1.cde3780p-5f, -0x1.96fedc0p-6f, -0x1.44f4040p-7f, -0x1.07f9ae0p-10f,
     -0x1.dda4820p-16f, -0x1.fd89560p-23f},
    {0x1.2c838e0p-3f, -0x1.16d2a80p-7f, -0x1.cafbee0p-5f, -0x1.d59db60p-9f, 0x1.bc9cec0p-9f, 0x1.b7e9d00p-12f,
     0x1.e68c7a0p-17f, 0x1.01ab980p-23f},
    {-0x1.60b1580p-5f, -0x1.e6e9f20p-5f, 0x1.b4932a0p-7f, 0x1.d5a54a0p-8f, -0x1.7123be0p-11f, -0x1.10706c0p-13f,
     -0x1.2663440p-18f, -0x1.32586e0p-25f},
};

}  // namespace x86::coefficients_f32
namespace x86::coefficients_f64 {

// (e^r - 1 - r) / r^2, |r| <= ln(2)/2. Relative error 2^-55.6.
inline constexpr double expm1[] = {
    0x1.0000000000005p-1,  0x1.555555555554ep-3,  0x1.555555555225bp-5,  0x1.111111111513bp-7,  0x1.6c16c17ecfab4p-10,
    0x1.a01a0185f8a6dp-13, 0x1.a019a7b47508dp-16, 0x1.71de68ca71da1p-19, 0x1.28a1918cd45e5p-22, 0x1.ae95aa3a910e1p-26,
};
// (log(1 + f) - f + f^2/2) / f^3, sqrt(1/2) <= 1 + f <= sqrt(2). Relative error 2^-56.6.
inline constexpr double log[] = {
    0x1.5555555555533p-2,  -0x1.fffffffffef1ap-3, 0x1.999999999f787p-3,  -0x1.555555566af68p-3, 0x1.24924922a334bp-3,
    -0x1.ffffff2c1935ep-4, 0x1.c71c71e04a91dp-4,  -0x1.9999c2666184bp-4, 0x1.745d3f160d36cp-4,  -0x1.5550eed9488a1p-4,
    0x1.3b0b89b8fd1cbp-4,  -0x1.24d749ff444d2p-4, 0x1.11ccf710d3ffep-4,  -0x1.fba1fdecbd521p-5, 0x1.d05afe2617511p-5,
    -0x1.d11f25c666423p-5, 0x1.0a612b25c789ap-4,  -0x1.ea058722aa5e0p-5, 0x1.ac77eb02b01ebp-6,
};
// (sin(r) - r) / r^3 in r^2, |r| <= pi/2. Relative error 2^-60.4.
inline constexpr double sin[] = {
    -0x1.5555555555555p-3,  0x1.11111111110b6p-7,  -0x1.a01a01a013498p-13, 0x1.71de3a51d3934p-19,
    -0x1.ae64546c7b78bp-26, 0x1.6123b142379acp-33, -0x1.ae3c03f64f518p-41, 0x1.8763d1b94f112p-49,
};
// 8 * (1 - erfc(a)^(1/8)) / a - 1, 0 <= a <= 3.93 (f32), 5.95 (f64). Relative error 2^-55.7.
inline constexpr double erf[] = {
    0x1.06eba8214db68p-3,   0x1.1d34a60108fafp-1,   0x1.11f29c67daa1bp-6,   -0x1.b028f56bfc157p-5,
    -0x1.6bfcab62c581ap-10, 0x1.01c6364a95d81p-8,   -0x1.1033f0c58c345p-11, -0x1.e29d3da3798bcp-14,
    0x1.5af19c3a296adp-14,  -0x1.a8e0209eb14aep-16, 0x1.1491a077b820cp-22,  0x1.ee3749c446117p-19,
    -0x1.cab73823997f8p-20, 0x1.d992d6357e131p-23,  0x1.77600cf84f88bp-23,  -0x1.2b26e24daf3a5p-23,
    0x1.f4d6bb1aacea2p-25,  -0x1.27e4b10c1d095p-26, 0x1.0797001604a4cp-28,  -0x1.672337ca3ae17p-31,
    0x1.728f4ec73875fp-34,  -0x1.1910f3b7dc040p-37, 0x1.2803fd93d657fp-41,  -0x1.82d6062dce14ap-46,
    0x1.d85d1b4787f12p-52,
};
// ((2 * atanh(s)/s - 2) / z - 2/3) / z in z = s^2, s <= (sqrt(2)-1) / (sqrt(2)+1). Relative error 2^-73.5.
inline constexpr double atanh[] = {
    0x1.9999999999996p-2, 0x1.2492492492f51p-2, 0x1.c71c71c5968bep-3, 0x1.745d18295a49bp-3,
    0x1.3b1364c7cac23p-3, 0x1.11206f77eb20cp-3, 0x1.de3d62a6a5820p-4, 0x1.eac64205b7a56p-4,
};
// Phi(-a) e^(a^2/2) (1 + a/4) in a / (1 + a/4) - 2, a <= 15 (f32), or a/6 and - 3.5, a <= 39 (f64). Relative error
// 2^-54.2.
inline constexpr double normal_tail[] = {
    0x1.cc85dabf38064p-4,   -0x1.eccf736e4eed3p-6,  0x1.e5f0e6424b32ep-8,   -0x1.b74a69be90e5bp-10,
    0x1.697f7721e6852p-12,  -0x1.0c13a7e4c18e9p-14, 0x1.60f3ce1f10f5fp-17,  -0x1.92b6384d5134dp-20,
    0x1.7d3371ae0b3f0p-23,  -0x1.0f1819c1a7e49p-26, 0x1.87ec9ded4870dp-31,  0x1.071b1acd72340p-34,
    -0x1.1081f25445f58p-36, 0x1.47510374c9944p-40,  0x1.19bec1c6badb2p-44,  -0x1.861781600d81dp-46,
    0x1.613815ce42847p-50,  0x1.f9f3e6dc7ad2dp-53,  -0x1.6902beec38787p-55, -0x1.8e84b47928430p-59,
    0x1.466483f872ae3p-61,  0x1.d4582ceb8f7bep-65,
};
// 1 / ln(2).
inline constexpr double log2_e = 0x1.71547652b82fep+0;
// ln(2) in two parts; their sum is right to twice the precision.
inline constexpr double ln2[] = {
    0x1.62e42fefa39efp-1,
    0x1.abc9e3b39803fp-56,
};
// The same; the first part times any exponent is exact.
inline constexpr double ln2_short[] = {
    0x1.62e42fefa3800p-1,
    0x1.ef35793c76730p-45,
};
// 1 / pi.
inline constexpr double inverse_pi = 0x1.45f306dc9c883p-2;
// pi in three parts (Cody and Waite), all positive, so that -0 stays -0.
inline constexpr double pi[] = {
    0x1.921fb54442d18p+1,
    0x1.1a62633145c06p-53,
    0x1.c1cd129024e08p-106,
};
// 2/3 in two parts.
inline constexpr double two_thirds[] = {
    0x1.5555555555555p-1,
    0x1.5555555555555p-55,
};

}  // namespace x86::coefficients_f64
namespace x86 {

// 1 / pi as an integer, in units of 2^-1162; the lowest word first.
inline constexpr int inverse_pi_unit = 1162;
inline constexpr std::uint64_t inverse_pi_bits[19] = {
    0xf6bf623f1aba10ac, 0x0e73ef14a525d4d7, 0x4f758fd7cbe2f67a, 0x8c7ecd3cbfd45aea, 0x6cfd9e4f96136e9e,
    0x5e2316b414da3eda, 0xf12fffbc0b301fde, 0x08bf177bf250763f, 0x23ac7306a673e939, 0x38e04d68befc8273,
    0x046bea5d768909d3, 0x3bd63962534e7dd1, 0x925dd413a32439fc, 0x48dc74849ba5c00c, 0xa2c757bd778ac36e,
    0xc52b3278872083fc, 0x4eafa3ea69bb81b6, 0xf306dc9c882a53f8, 0x0000000000000145,
};

}  // namespace x86
SINTER_NAMESPACE_END
