// What is decided when a nest meets its numbers: which parallel axes merge with the vector axis, which one the compiled
// loop counts over, how the rest is walked, and whether one long axis is cut into tasks. One driver for every back end
// that runs nests on a processor. Knows extents and strides; no addresses, no threads.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/kernel/facts.hpp>
#include <sinter/kernel/kernel.hpp>

#include <cstdint>

SINTER_NAMESPACE_BEGIN

/// What work costs, for choosing tasks.
struct NestCosts {
  double nanoseconds_per_element = 0.1;
  double serial_nanoseconds = 30000;  // below it, nothing is worth a task of its own
};

/// The tasks of a nest over bound extents: `rest` axes, then the outer axis (or chunks of the vector axis), each of
/// whose iterations runs the compiled loop over `columns` points.
struct NestBinding {
  struct Axis {
    int axis = -1;
    std::int64_t extent = 1;
  };
  std::int64_t columns = 1;          // points of the vector axis, merged axes included
  Axis outer;                        // axis -1: none, or chunks of the vector axis
  SmallVector<Axis, max_axes> rest;  // outermost first
  std::int64_t rest_points = 1;
  std::int64_t chunk = 0;       // points of the vector axis in a task; 0: all
  std::int64_t last_chunk = 0;  // points that are left for one more task
  double nanoseconds = 0;       // all of it, by one thread
  bool is_empty = false;        // nothing is stored
};

/// Facts of a kernel that binding asks for each time, computed once.
struct NestBinder {
  explicit NestBinder(const Kernel& kernel);
  NestBinding bind(const BoundGeometry& geometry, const NestCosts& costs) const;

  const Kernel* kernel;
  AxisMask indexed = 0;
  double bytes_per_element = 0;  // that move when the vector axis advances

 private:
  void add_parallel_axes(NestBinding& binding, const BoundGeometry& geometry) const;
  void merge_into_vector_axis(NestBinding& binding, const BoundGeometry& geometry) const;
  static void choose_outer(NestBinding& binding);
  static void cut_vector_axis(NestBinding& binding, const NestCosts& costs);
};

SINTER_NAMESPACE_END
