// Coefficients of the functions that ops are made of. Made by tools/minimax.py, not by hand: edit that and run it
// again.
#pragma once

#include <sinter/base/config.hpp>

SINTER_NAMESPACE_BEGIN
namespace ops_detail::coefficients_f32 {

// (e^r - 1 - r) / r^2, |r| <= ln(2)/2. Relative error 2^-26.1.
inline constexpr double expm1[] = {
    0x1.fffffe0000000p-2, 0x1.5554b40000000p-3, 0x1.5556f20000000p-5, 0x1.1225460000000p-7, 0x1.6b9c6e0000000p-10,
};
// (atan(r)/r - 1) / z in z = r^2, r <= 1. Relative error 2^-25.8.
inline constexpr double atan[] = {
    -0x1.5554dc0000000p-2, 0x1.9978ec0000000p-3, -0x1.230a940000000p-3, 0x1.b4deb00000000p-4,
    -0x1.3550da0000000p-4, 0x1.61eeb00000000p-5, -0x1.0c17d40000000p-6, 0x1.7ea6940000000p-9,
};
// (asin(r)/r - 1) / z in z = r^2, r <= 1/2. Relative error 2^-27.6.
inline constexpr double asin[] = {
    0x1.5555c80000000p-3, 0x1.3302040000000p-4, 0x1.747bc00000000p-5, 0x1.8c3da80000000p-6, 0x1.595d360000000p-5,
};
// Phi(-a) e^(a^2/2) (1 + a/4) in a / (1 + a/4) - 2, a <= 15 (f32), or a/6 and - 3.5, a <= 39 (f64). Relative error
// 2^-25.7.
inline constexpr double normal_tail[] = {
    0x1.82b4bc0000000p-3,  -0x1.373e3a0000000p-4,  0x1.8c6d7a0000000p-6,   -0x1.7dff6c0000000p-8,
    0x1.eedeb80000000p-11, -0x1.ed86b00000000p-15, -0x1.ceb5a40000000p-17, 0x1.9c64300000000p-19,
    0x1.a543c00000000p-23, -0x1.00dd6e0000000p-24,
};
// lgamma(2 + t) / t, |t| <= 1/2. Relative error 2^-25.9.
inline constexpr double gamma_middle[] = {
    0x1.b0ee600000000p-2, 0x1.4a34cc0000000p-2,   -0x1.13df240000000p-4, 0x1.51346a0000000p-6,   -0x1.e516280000000p-8,
    0x1.798d720000000p-9, -0x1.1d54ce0000000p-10, 0x1.29c2300000000p-11, -0x1.d0c7dc0000000p-12,
};
// x (lgamma(x) - ((x - 1/2) log(x) - x + log(2 pi) / 2)) in z = 1/x^2, x >= 8. Relative error 2^-33.6.
inline constexpr double stirling[] = {
    0x1.5555560000000p-4,
    -0x1.6c3f080000000p-9,
    0x1.c39b560000000p-11,
};
// erfinv(a) / a in a^2, a <= 0.81. Relative error 2^-17.2.
inline constexpr double erf_inverse_near[] = {
    0x1.c5c0480000000p-1, 0x1.d990f60000000p-3,  0x1.289b360000000p-3, -0x1.b91e560000000p-5,
    0x1.2d0d400000000p-1, -0x1.bf7f480000000p-1, 0x1.697f2e0000000p-1,
};
// erfinv(a) in t = sqrt(-log(1 - a)) - 3.5, a >= 0.8. Relative error 2^-16.8.
inline constexpr double erf_inverse_far[] = {
    0x1.9dfe4c0000000p+1,  0x1.095c8a0000000p+0,   -0x1.4e1cf60000000p-8,  0x1.1520320000000p-12, 0x1.66561a0000000p-13,
    0x1.6ae9300000000p-15, -0x1.92162a0000000p-17, -0x1.d875860000000p-16, 0x1.127dba0000000p-17,
};
// I0(x) in x^2, x <= 8. Relative error 2^-35.4.
inline constexpr double i0_near[] = {
    0x1.0000000000000p+0,  0x1.0000000000000p-2,  0x1.0000000000000p-6,  0x1.c71c720000000p-12,
    0x1.c71c6a0000000p-18, 0x1.2345c80000000p-24, 0x1.02e3ac0000000p-31, 0x1.526d480000000p-39,
    0x1.4fe24c0000000p-47, 0x1.1776680000000p-55, 0x1.0731420000000p-64, 0x1.3b90c80000000p-72,
};
// sqrt(x) e^-x I0(x) in 16/x - 1, x >= 8. Relative error 2^-25.2.
inline constexpr double i0_far[] = {
    0x1.9bd4280000000p-2,  0x1.b8796a0000000p-9,  0x1.1e08a60000000p-13, 0x1.75a4dc0000000p-17,
    0x1.140c6c0000000p-20, 0x1.6ac0c20000000p-22, 0x1.a9ad1c0000000p-22,
};
// I1(x) / x in x^2, x <= 8. Relative error 2^-32.9.
inline constexpr double i1_near[] = {
    0x1.0000000000000p-1,  0x1.0000000000000p-4,  0x1.5555560000000p-9,  0x1.c71c5a0000000p-15,
    0x1.6c17fc0000000p-21, 0x1.844c100000000p-28, 0x1.2863cc0000000p-35, 0x1.4d89a60000000p-43,
    0x1.472afc0000000p-51, 0x1.eaac0e0000000p-61, 0x1.24477e0000000p-67, -0x1.c951480000000p-78,
};
// sqrt(x) e^-x I1(x) in 16/x - 1, x >= 8. Relative error 2^-26.8.
inline constexpr double i1_far[] = {
    0x1.8ebe780000000p-2,   -0x1.3f79620000000p-7,  -0x1.cba9a80000000p-13, -0x1.f839cc0000000p-17,
    -0x1.058cf60000000p-19, -0x1.ac6f620000000p-22, -0x1.a6e2600000000p-25,
};

}  // namespace ops_detail::coefficients_f32
namespace ops_detail::coefficients_f64 {

// (e^r - 1 - r) / r^2, |r| <= ln(2)/2. Relative error 2^-55.6.
inline constexpr double expm1[] = {
    0x1.0000000000005p-1,  0x1.555555555554ep-3,  0x1.555555555225bp-5,  0x1.111111111513bp-7,  0x1.6c16c17ecfab4p-10,
    0x1.a01a0185f8a6dp-13, 0x1.a019a7b47508dp-16, 0x1.71de68ca71da1p-19, 0x1.28a1918cd45e5p-22, 0x1.ae95aa3a910e1p-26,
};
// (atan(r)/r - 1) / z in z = r^2, r <= 1. Relative error 2^-55.0.
inline constexpr double atan[] = {
    -0x1.555555555544bp-2, 0x1.9999999983ff7p-3,   -0x1.2492491f9e8c0p-3, 0x1.c71c709d5de65p-4,   -0x1.745d02252cc59p-4,
    0x1.3b12b26a99d64p-4,  -0x1.1108995518702p-4,  0x1.e177ef5a14f41p-5,  -0x1.ad32196253cb1p-5,  0x1.7ee209b4bdb2bp-5,
    -0x1.4f409fdc6df77p-5, 0x1.170dbcb4727f4p-5,   -0x1.a7103b66d4f2ep-6, 0x1.1614b27c9cc16p-6,   -0x1.2cd28c58c22e3p-7,
    0x1.f9195d4a43cb2p-9,  -0x1.30e9e6e911341p-10, 0x1.d341f0e8fe007p-13, -0x1.537cdcf87151fp-16,
};
// (asin(r)/r - 1) / z in z = r^2, r <= 1/2. Relative error 2^-55.9.
inline constexpr double asin[] = {
    0x1.5555555555390p-3, 0x1.333333336e836p-4, 0x1.6db6db4277e36p-5,  0x1.f1c72c39f2821p-6,
    0x1.6e89f42587bfap-6, 0x1.1c6be36139525p-6, 0x1.c6fd9cbe900d2p-7,  0x1.8ec3fee7c2374p-7,
    0x1.abc6291c5486fp-8, 0x1.3ffb407f8a5d7p-6, -0x1.09ddeb131ed64p-6, 0x1.05713eaf03e63p-5,
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
// lgamma(2 + t) / t, |t| <= 1/2. Relative error 2^-56.2.
inline constexpr double gamma_middle[] = {
    0x1.b0ee6072093cep-2,   0x1.4a34cc4a60fa6p-2,  -0x1.13e001a557538p-4,  0x1.51322ac7d88f9p-6,
    -0x1.e404fc21dc6f7p-8,  0x1.7add6ead2a1d4p-9,  -0x1.38ac5bffa1e1ep-10, 0x1.0b36afbc793a8p-11,
    -0x1.d3fd66044866ep-13, 0x1.a1279e832a326p-14, -0x1.78da3c013fbfep-15, 0x1.580ed66303757p-16,
    -0x1.3d1fed604292fp-17, 0x1.25adef201a457p-18, -0x1.0c5a9e448304bp-19, 0x1.f8fdb6c297256p-21,
    -0x1.16c78ee285f93p-21, 0x1.1592f604a8bf0p-22, -0x1.08e00529a750ap-24,
};
// x (lgamma(x) - ((x - 1/2) log(x) - x + log(2 pi) / 2)) in z = 1/x^2, x >= 8. Relative error 2^-62.6.
inline constexpr double stirling[] = {
    0x1.5555555555555p-4,  -0x1.6c16c16c09cf8p-9,  0x1.a01a00fc5137ap-11, -0x1.3812c06050624p-11,
    0x1.b8e72a3ef056dp-11, -0x1.e7c8580d72c87p-10, 0x1.221e58336e757p-8,
};
// erfinv(a) / a in a^2, a <= 0.81. Relative error 2^-17.3.
inline constexpr double erf_inverse_near[] = {
    0x1.c5c047a383312p-1, 0x1.d991a9139fd35p-3,  0x1.288d607b5a318p-3, -0x1.b792378a5b4bbp-5,
    0x1.2cbde06d243fap-1, -0x1.bf0ad715300dfp-1, 0x1.693f85f552b7dp-1,
};
// erfinv(a) in t = sqrt(-log(1 - a)) - 3.5, a >= 0.8. Relative error 2^-16.8.
inline constexpr double erf_inverse_far[] = {
    0x1.9dfe4c589d95fp+1,  0x1.095c8a2ea528ep+0,   -0x1.4e1ea9e2a097ap-8,  0x1.15170c9c90ca0p-12, 0x1.66720e7c660e0p-13,
    0x1.6b0540296f28bp-15, -0x1.926c89dbe7822p-17, -0x1.d87b2e04ff5edp-16, 0x1.12839eea8911cp-17,
};
// I0(x) in x^2, x <= 8. Relative error 2^-67.3.
inline constexpr double i0_near[] = {
    0x1.0000000000000p+0,   0x1.0000000000000p-2,    0x1.0000000000000p-6,   0x1.c71c71c71c71cp-12,
    0x1.c71c71c71c740p-18,  0x1.23456789ab84cp-24,   0x1.02e85c08a33e4p-31,  0x1.522a43f466c41p-39,
    0x1.522a443443421p-47,  0x1.0b312cf904537p-55,   0x1.5602455840ec8p-64,  0x1.69b7c0903423dp-73,
    0x1.43067e0c81069p-82,  0x1.bc808eab22754p-92,   0x1.917048a8043a1p-100, -0x1.f3089f8ef7953p-107,
    0x1.a30125a6c71cdp-113, -0x1.e1758d2e40173p-120, 0x1.79fe3b5335f6fp-127, -0x1.693e7b16b33f8p-135,
    0x1.3d30288e86a45p-144,
};
// sqrt(x) e^-x I0(x) in 16/x - 1, x >= 8. Relative error 2^-53.8.
inline constexpr double i0_far[] = {
    0x1.9bd428ad249a5p-2,   0x1.b87969bb93bd5p-9,  0x1.1daa72b5a462dp-13,  0x1.75e5ee6f879b3p-17,
    0x1.8e51403b876cbp-20,  0x1.3f49af98d0b50p-22, 0x1.7d085a4b85c8ep-24,  0x1.51cb2353f8e31p-25,
    0x1.73355f38c3583p-26,  0x1.03f6117426179p-27, -0x1.e68f88bfc46bep-28, -0x1.ce7230369c375p-27,
    -0x1.2172242d17472p-28, 0x1.0864c7f68785fp-27, 0x1.3d4b043328815p-28,  -0x1.02fe71998a4e4p-28,
    -0x1.a4501962b561cp-30, 0x1.f84157fd29587p-30, -0x1.06fcc754677efp-30, -0x1.bb3a3bcadc7e5p-31,
    0x1.82887bc5169b9p-30,  0x1.152fc1648bcd9p-32, -0x1.794d4f96944f6p-31, -0x1.523e2cde0bbc4p-35,
    0x1.1abe3431d3b5bp-33,
};
// I1(x) / x in x^2, x <= 8. Relative error 2^-64.8.
inline constexpr double i1_near[] = {
    0x1.0000000000000p-1,    0x1.0000000000000p-4,   0x1.5555555555555p-9,    0x1.c71c71c71c741p-15,
    0x1.6c16c16c165eep-21,   0x1.845c8a0cf7152p-28,  0x1.27e4fb757c71fp-35,   0x1.522a444733a45p-43,
    0x1.2c97500536efcp-51,   0x1.ab83555005b56p-60,  0x1.f14adc334cf49p-69,   0x1.e6688dace2530p-78,
    0x1.430a7393cfbaep-87,   0x1.43a6c9f79aa61p-94,  -0x1.4fe1c8ac6dc22p-100, 0x1.5d62ea0961dd5p-106,
    -0x1.0ae36f08e0dd2p-112, 0x1.274e8ff413695p-119, -0x1.be46d4d89573ep-127, 0x1.9bf83055eb6a7p-135,
    -0x1.5e5d12d08e165p-144,
};
// sqrt(x) e^-x I1(x) in 16/x - 1, x >= 8. Relative error 2^-56.3.
inline constexpr double i1_far[] = {
    0x1.8ebe783a84030p-2,   -0x1.3f796198ee63fp-7,  -0x1.cbc54df1f5f04p-13, -0x1.f89c23044fa30p-17,
    -0x1.ec8e0f6481e98p-20, -0x1.76138598f59afp-22, -0x1.ad8e692b48bd7p-24, -0x1.7277abbd211b7p-25,
    -0x1.916994fd06285p-26, -0x1.21d568e7bc317p-27, 0x1.cbac8f220e85ap-28,  0x1.e34b0cda98776p-27,
    0x1.a4fe8889a515cp-28,  -0x1.097d1519adbf2p-27, -0x1.1a9e5a3974ddfp-27, 0x1.eb3a63c7d9091p-29,
    0x1.cf713a0e3d61ap-28,  -0x1.b9e03b6bb8d0fp-30, -0x1.26bf2f2e708fbp-28, 0x1.6585f75dfa31bp-31,
    0x1.123921f314ff3p-29,  -0x1.a0446e5b6effcp-33, -0x1.434c8fa3d976fp-31, 0x1.deb970472437ap-36,
    0x1.6390e9844978dp-34,
};

}  // namespace ops_detail::coefficients_f64
SINTER_NAMESPACE_END
