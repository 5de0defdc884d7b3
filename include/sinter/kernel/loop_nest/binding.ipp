// Decisions at bind, by extents and strides.
#pragma once

#include <sinter/kernel/loop_nest/binding.hpp>

#include <algorithm>

SINTER_NAMESPACE_BEGIN

SINTER_DECL NestBinder::NestBinder(const Kernel& the_kernel) : kernel(&the_kernel), indexed(indexed_axes(the_kernel)) {
  for (const Access& access : the_kernel.accesses)
    if (access.stride[as_index(the_kernel.rank() - 1)] != StrideClass::zero)
      bytes_per_element += static_cast<double>(size_of(the_kernel.operands[access.operand].dtype));
}

SINTER_DECL NestBinding NestBinder::bind(const BoundGeometry& geometry, const NestCosts& costs) const {
  NestBinding binding;
  add_parallel_axes(binding, geometry);
  // What another thread has written, or what does not fit, comes from beyond a core's own caches.
  constexpr double nanoseconds_per_byte = 0.06;
  binding.nanoseconds *= std::max(costs.nanoseconds_per_element, bytes_per_element * nanoseconds_per_byte);
  if (binding.is_empty) return binding;
  const bool is_reduced = kernel->is_reduced(kernel->rank() - 1);
  if (!is_reduced) merge_into_vector_axis(binding, geometry);
  choose_outer(binding);
  if (binding.outer.axis < 0 && !is_reduced) cut_vector_axis(binding, costs);
  return binding;
}

/// All parallel axes but the vector axis, as `rest`; the number of points, as nanoseconds.
SINTER_DECL void NestBinder::add_parallel_axes(NestBinding& binding, const BoundGeometry& geometry) const {
  const int vector_axis = kernel->rank() - 1;
  binding.columns = geometry.extent[as_index(vector_axis)];
  binding.nanoseconds = 1;
  for (int a = 0; a < kernel->rank(); ++a) {
    const std::int64_t extent = geometry.extent[as_index(a)];
    binding.nanoseconds *= static_cast<double>(std::max<std::int64_t>(extent, 1));
    if (kernel->is_reduced(a)) continue;
    binding.is_empty |= extent == 0;
    if (a != vector_axis && extent != 1) binding.rest.push_back({a, extent});
  }
}

/// Axes join the vector axis where every access runs on through them.
SINTER_DECL void NestBinder::merge_into_vector_axis(NestBinding& binding, const BoundGeometry& geometry) const {
  const int vector_axis = kernel->rank() - 1;
  if ((indexed >> vector_axis & 1) != 0) return;
  while (!binding.rest.empty()) {
    const NestBinding::Axis inner = binding.rest.back();
    if ((indexed >> inner.axis & 1) != 0) return;
    for (const auto& access : geometry.accesses)
      if (access.stride[as_index(inner.axis)] != access.stride[as_index(vector_axis)] * binding.columns) return;
    binding.columns *= inner.extent;
    binding.rest.pop_back();
  }
}

/// The longest of the axes that are left; of equals the innermost.
SINTER_DECL void NestBinder::choose_outer(NestBinding& binding) {
  SmallVector<NestBinding::Axis, max_axes> rest;
  for (const NestBinding::Axis& axis : binding.rest)
    if (binding.outer.axis < 0 || axis.extent >= binding.outer.extent) binding.outer = axis;
  for (const NestBinding::Axis& axis : binding.rest) {
    if (axis.axis == binding.outer.axis) continue;
    rest.push_back(axis);
    binding.rest_points *= axis.extent;
  }
  binding.rest = rest;
}

/// With the vector axis as the only parallel one, chunks of it become the outer axis.
SINTER_DECL void NestBinder::cut_vector_axis(NestBinding& binding, const NestCosts& costs) {
  if (binding.nanoseconds < costs.serial_nanoseconds) return;
  constexpr double chunk_nanoseconds = 8000;
  const double per_column = binding.nanoseconds / static_cast<double>(binding.columns);
  auto chunk = static_cast<std::int64_t>(chunk_nanoseconds / per_column);
  chunk = std::max<std::int64_t>((chunk + 255) / 256 * 256, 256);
  if (chunk >= binding.columns) return;
  binding.chunk = chunk;
  binding.outer.extent = binding.columns / chunk;
  binding.last_chunk = binding.columns % chunk;
}

SINTER_NAMESPACE_END
