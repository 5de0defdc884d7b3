// Factorisations of complex matrices (and of real ones that have complex results) that are not made of real ones: LU,
// QR, eigenvalues and vectors, singular values and vectors, and determinants. Operands and complex results are pairs:
// f32 or f64 with a last axis of real and imaginary part. Everything else about complex matrices is composed of real
// functions (expr/linalg_complex.hpp).
#pragma once

#include <sinter/ops/infer.hpp>
#include <sinter/ops/linalg.hpp>
#include <sinter/ops/val_ops.hpp>

SINTER_NAMESPACE_BEGIN
namespace ops {

/// P a = L U as LuFactor has it, of pairs; pivots are those of LAPACK, the largest of |re| + |im|.
struct ComplexLu {
  static constexpr OpInfo info{.name = "complex_lu", .arity = 1, .kind = OpKind::structured};
  static constexpr OpAttr<FactorUse> use{"use", 0, factor_uses};
  static constexpr OpAttr<Dim> steps{"steps", 0};  // min(m, n)
  static constexpr auto attributes = attribute_list(use, steps);
  static void infer(const InferArgs& args, TypeList& out);
  static void run_on_host(HostCall& call);
  static ValList vjp(const VjpArgs& a);
  static void batch(const BatchArgs& args, BatchedList& results);
};

/// Q and R as Qr has them, of pairs; the diagonal of R is real.
struct ComplexQr {
  static constexpr OpInfo info{.name = "complex_qr", .arity = 1, .kind = OpKind::structured};
  static constexpr OpAttr<QrMode> mode{"mode", 0, "reduced complete r"};
  static constexpr OpAttr<Dim> steps{"steps", 0};  // min(m, n)
  static constexpr auto attributes = attribute_list(mode, steps);
  static void infer(const InferArgs& args, TypeList& out);
  static void run_on_host(HostCall& call);
  static ValList vjp(const VjpArgs& a);
  static void batch(const BatchArgs& args, BatchedList& results);
};

/// Eigenvalues (real, ascending) and vectors (pairs, as columns) of Hermitian matrices, of which the lower triangle is
/// read.
struct ComplexEigh {
  static constexpr OpInfo info{.name = "complex_eigh", .arity = 1, .kind = OpKind::structured};
  static void infer(const InferArgs& args, TypeList& out);
  static void run_on_host(HostCall& call);
  static ValList vjp(const VjpArgs& a);
  static void batch(const BatchArgs& args, BatchedList& results);
};

/// Eigenvalues (pairs) and vectors (pairs, columns of norm 1) of any square matrices, in the order of the
/// decomposition.
struct Eig {
  static constexpr OpInfo info{.name = "eig", .arity = 1, .kind = OpKind::structured};
  static void infer(const InferArgs& args, TypeList& out);
  static void run_on_host(HostCall& call);
  static ValList vjp(const VjpArgs& a);
  static void batch(const BatchArgs& args, BatchedList& results);
};

/// U, S, V^H with a = U diag(S) V^H; U and V^H are pairs.
struct ComplexSvd {
  static constexpr OpInfo info{.name = "complex_svd", .arity = 1, .kind = OpKind::structured};
  static constexpr OpAttr<bool> is_full{"full", 0};
  static constexpr OpAttr<Dim> steps{"steps", 0};  // min(m, n)
  static constexpr auto attributes = attribute_list(is_full, steps);
  static void infer(const InferArgs& args, TypeList& out);
  static void run_on_host(HostCall& call);
  static ValList vjp(const VjpArgs& a);
  static void batch(const BatchArgs& args, BatchedList& results);
};

/// The determinant, a pair. Its gradient is that of cofactors, also where the matrix is singular.
struct ComplexDet {
  static constexpr OpInfo info{.name = "complex_det", .arity = 1, .kind = OpKind::structured};
  static Type infer(const InferArgs& args);
  static void run_on_host(HostCall& call);
  static ValList vjp(const VjpArgs& a);
  static Batched batch(const BatchArgs& args);
};

/// The determinant as a number of size 1 (a pair; 0 of a singular matrix) and the logarithm of its size.
struct ComplexLogDet {
  static constexpr OpInfo info{.name = "complex_logdet", .arity = 1, .kind = OpKind::structured};
  static void infer(const InferArgs& args, TypeList& out);
  static void run_on_host(HostCall& call);
  static ValList vjp(const VjpArgs& a);
  static void batch(const BatchArgs& args, BatchedList& results);
};

}  // namespace ops
SINTER_NAMESPACE_END
