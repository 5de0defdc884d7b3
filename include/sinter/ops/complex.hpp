// Complex numbers in graphs. c64 and c128 are pairs of f32 and f64 in memory: these ops go from pairs to complex values
// and back, and every other operation is made of real ones between them when it is recorded (expr/complex.ipp). The
// pass in passes/complex.hpp leaves of them only where a complex value enters or leaves a graph. No kernel knows them.
#pragma once

#include <sinter/ops/infer.hpp>
#include <sinter/ops/val_ops.hpp>

SINTER_NAMESPACE_BEGIN
namespace ops {

/// re + i im, of operands of one shape and floating dtype.
struct Complex {
  static constexpr OpInfo info{.name = "complex", .arity = 2, .kind = OpKind::structured};
  static Type infer(const InferArgs& args);
  static ValList vjp(const VjpArgs& a);
  static Batched batch(const BatchArgs& a);
};

struct Real {
  static constexpr OpInfo info{.name = "real", .arity = 1, .kind = OpKind::structured, .takes_complex = true};
  static Type infer(const InferArgs& args);
  static ValList vjp(const VjpArgs& a);
  static Batched batch(const BatchArgs& a);
};

struct Imag {
  static constexpr OpInfo info{.name = "imag", .arity = 1, .kind = OpKind::structured, .takes_complex = true};
  static Type infer(const InferArgs& args);
  static ValList vjp(const VjpArgs& a);
  static Batched batch(const BatchArgs& a);
};

/// The same memory with one more axis of 2, the last: real and imaginary parts.
struct ViewAsReal {
  static constexpr OpInfo info{.name = "view_as_real", .arity = 1, .kind = OpKind::structured, .takes_complex = true};
  static Type infer(const InferArgs& args);
  static ValList vjp(const VjpArgs& a);
  static Batched batch(const BatchArgs& a);
};

/// Back from there.
struct ViewAsComplex {
  static constexpr OpInfo info{.name = "view_as_complex", .arity = 1, .kind = OpKind::structured};
  static Type infer(const InferArgs& args);
  static ValList vjp(const VjpArgs& a);
  static Batched batch(const BatchArgs& a);
};

}  // namespace ops

Val complex(Val re, Val im);
Val real(Val z);
Val imag(Val z);
Val view_as_real(Val z);
Val view_as_complex(Val pairs);

SINTER_NAMESPACE_END
