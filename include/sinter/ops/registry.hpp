// All ops, and the way from a name to its op. Including this header includes every op.
#pragma once

#include <sinter/ops/activation.hpp>
#include <sinter/ops/attention.hpp>
#include <sinter/ops/binary.hpp>
#include <sinter/ops/bits.hpp>
#include <sinter/ops/comparison.hpp>
#include <sinter/ops/complex.hpp>
#include <sinter/ops/control.hpp>
#include <sinter/ops/conv.hpp>
#include <sinter/ops/convolution.hpp>
#include <sinter/ops/ctc.hpp>
#include <sinter/ops/cumulative.hpp>
#include <sinter/ops/custom_derivative.hpp>
#include <sinter/ops/elementary.hpp>
#include <sinter/ops/fft.hpp>
#include <sinter/ops/flip.hpp>
#include <sinter/ops/found.hpp>
#include <sinter/ops/host_elementwise.hpp>
#include <sinter/ops/join.hpp>
#include <sinter/ops/layer_norm.hpp>
#include <sinter/ops/leaf.hpp>
#include <sinter/ops/linalg.hpp>
#include <sinter/ops/loss.hpp>
#include <sinter/ops/matmul.hpp>
#include <sinter/ops/more_activations.hpp>
#include <sinter/ops/order.hpp>
#include <sinter/ops/quantized.hpp>
#include <sinter/ops/random.hpp>
#include <sinter/ops/reduction.hpp>
#include <sinter/ops/region.hpp>
#include <sinter/ops/softmax.hpp>
#include <sinter/ops/special.hpp>
#include <sinter/ops/statistics.hpp>
#include <sinter/ops/take.hpp>
#include <sinter/ops/to.hpp>
#include <sinter/ops/unary.hpp>
#include <sinter/ops/view.hpp>

SINTER_NAMESPACE_BEGIN

/// Every op, sorted by name.
std::span<const OpInfo* const> all_ops();

SINTER_NAMESPACE_END
