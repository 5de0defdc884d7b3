// Host operations: steps of a plan that no kernel expresses, as plain functions with a fixed order of additions.
// They look like launches to a frame. Knows no plans.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/kernel/items.hpp>
#include <sinter/runtime/backend.hpp>

#include <memory>
#include <span>

SINTER_NAMESPACE_BEGIN

/// scatter_add: operands are index, value, result. Strides symbolic, in elements.
struct HostOp {
  DType index_dtype = DType::i64;
  DType dtype = DType::f32;
  int axis = 0;
  Shape index_shape, result_shape;
  Layout index, value;
};

/// What the item does, with the layouts of its operands.
HostOp make_host_op(const ItemGraph& items, int item);
/// Throws IndexError from run() when an index is out of range.
std::unique_ptr<Launch> bind_host_op(const HostOp& op, std::span<const std::int64_t> symbols);

SINTER_NAMESPACE_END

#ifndef SINTER_SEPARATE_COMPILATION
#include <sinter/runtime/host_ops.ipp>
#endif
