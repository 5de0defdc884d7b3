// Runs one KernelCase on two back ends and says where they differ; shrinks a case that differs. Operands lie against
// inaccessible pages, so that a read or write past their ends stops the program at once (the text of the case is
// printed).
#pragma once

#include "guarded_buffer.hpp"
#include "kernel_random.hpp"

#include <sinter/runtime/backend.hpp>

#include <unistd.h>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <functional>
#include <new>
#include <utility>

namespace sinter_test {

/// The operands of a case in memory.
struct OperandMemory {
  std::vector<GuardedBuffer> buffers;
  std::vector<std::int64_t> elements;
  std::vector<void*> base;
};

/// Elements [0, count) that the accesses of an operand can reach.
inline std::int64_t elements_of(const KernelCase& test_case, std::size_t operand) {
  std::int64_t count = 0;
  for (std::size_t i = 0; i < test_case.kernel.accesses.size(); ++i) {
    if (test_case.kernel.accesses[i].operand != operand) continue;
    const auto& numbers = test_case.geometry.accesses[i];
    std::int64_t highest = numbers.offset;
    bool is_read = true;
    for (int a = 0; a < test_case.kernel.rank(); ++a) {
      const auto k = static_cast<std::size_t>(a);
      std::int64_t first = 0, last = test_case.geometry.extent[k] - 1;
      if (i < test_case.guards.size() && test_case.guards[i]) {
        first = test_case.guards[i]->low[k];
        last = test_case.guards[i]->high[k] - 1;
        // An empty axis guards nothing: loops outside of its own read what does not vary along it.
        is_read = is_read && (first <= last || test_case.geometry.extent[k] == 0);
      }
      highest += std::max(numbers.stride[k] * first, numbers.stride[k] * last);
    }
    if (!is_read) continue;
    if (numbers.gather_extent > 0) highest += numbers.gather_stride * (numbers.gather_extent - 1);
    count = std::max(count, highest + 1);
  }
  return count;
}

template <class T>
T random_element(Random& random, const DataRange& range) {
  if constexpr (FloatingElement<T> && sizeof(T) <= 2) {
    return T(random_element<float>(random, range));
  } else if constexpr (std::is_floating_point_v<T>) {
    if (range.special && random.chance(3))
      return random.chance(40)   ? std::numeric_limits<T>::quiet_NaN()
             : random.chance(50) ? std::numeric_limits<T>::infinity()
                                 : -std::numeric_limits<T>::infinity();
    const double value = random.real(range.low, range.high);
    return static_cast<T>(range.integral ? std::round(value) : value);
  } else {
    if (range.high > 1e9) return static_cast<T>(random.next());
    return static_cast<T>(random.integer(static_cast<std::int64_t>(range.low), static_cast<std::int64_t>(range.high)));
  }
}

inline OperandMemory make_operands(const KernelCase& test_case) {
  OperandMemory memory;
  for (std::size_t i = 0; i < test_case.kernel.operands.size(); ++i) {
    const DType dtype = test_case.kernel.operands[i].dtype;
    const std::int64_t count = elements_of(test_case, i);
    if (const int owner = test_case.data[i].memory_of; owner >= 0) {  // the same accesses, so the same elements
      memory.buffers.emplace_back(0, GuardPages::at_end);
      memory.elements.push_back(count);
      memory.base.push_back(memory.base[static_cast<std::size_t>(owner)]);
      continue;
    }
    Random random(test_case.seed * 1000003 + i);
    memory.buffers.emplace_back(static_cast<std::size_t>(count * size_of(dtype)),
                                random.chance(70) ? GuardPages::at_end : GuardPages::at_start);
    memory.elements.push_back(count);
    memory.base.push_back(memory.buffers.back().data());
    visit_dtype(dtype, [&](auto tag) {
      using T = decltype(tag);
      for (std::int64_t k = 0; k < count; ++k) {
        const T value = random_element<T>(random, test_case.data[i]);
        std::memcpy(static_cast<T*>(memory.buffers.back().data()) + k, &value, sizeof(T));
      }
    });
  }
  return memory;
}

/// Everything needed to look at a case by hand.
inline std::string describe(const KernelCase& test_case) {
  const Kernel& kernel = test_case.kernel;
  std::string text = "seed " + std::to_string(test_case.seed) + "\n" + kernel.text() + "extents";
  for (int a = 0; a < kernel.rank(); ++a)
    text += " " + std::to_string(test_case.geometry.extent[static_cast<std::size_t>(a)]);
  for (std::size_t i = 0; i < kernel.accesses.size(); ++i) {
    const auto& numbers = test_case.geometry.accesses[i];
    text += "\naccess " + std::to_string(i) + ": p" + std::to_string(kernel.accesses[i].operand) + " offset " +
            std::to_string(numbers.offset) + " strides";
    for (int a = 0; a < kernel.rank(); ++a) text += " " + std::to_string(numbers.stride[static_cast<std::size_t>(a)]);
    if (numbers.gather_extent > 0)
      text += " gather extent " + std::to_string(numbers.gather_extent) + " stride " +
              std::to_string(numbers.gather_stride);
  }
  for (std::size_t i = 0; i < test_case.data.size(); ++i) {
    char range[80];
    std::snprintf(range, sizeof range, "\np%zu in [%g, %g]%s%s", i, test_case.data[i].low, test_case.data[i].high,
                  test_case.data[i].integral ? " whole" : "", test_case.data[i].special ? " with NaN and inf" : "");
    text += range;
    if (test_case.data[i].memory_of >= 0) text += ", in the memory of p" + std::to_string(test_case.data[i].memory_of);
  }
  return text + "\n";
}

/// How alike results have to be.
enum class Closeness : std::uint8_t { within_error, same_bits };

namespace compare_detail {
/// What a crash handler prints; set before foreign code runs.
inline char crash_text[16384];
inline void on_crash(int signal_number) {
  const char title[] = "\ncrash while running a random kernel (a read or write outside its operands?)\n";
  ssize_t ignored = write(2, title, sizeof title - 1);
  ignored = write(2, crash_text, std::strlen(crash_text));
  static_cast<void>(ignored);
  std::signal(signal_number, SIG_DFL);
  raise(signal_number);
}

template <class T>
bool agrees(T expected, T actual, const Facts& facts, Closeness agreement) {
  if constexpr (FloatingElement<T> && sizeof(T) <= 2) {  // rounded once more, perhaps to the other side
    const auto wanted = static_cast<double>(expected), got = static_cast<double>(actual);
    if (agreement == Closeness::same_bits || std::isnan(wanted) || std::isnan(got) || wanted == got)
      return wanted == got || (std::isnan(wanted) && std::isnan(got));
    const auto epsilon = static_cast<double>(std::numeric_limits<T>::epsilon()),
               largest = static_cast<double>(std::numeric_limits<T>::max());
    const auto bounded = [&](double x) { return std::max(-largest, std::min(largest, x)); };
    return std::fabs(bounded(wanted) - bounded(got)) <= facts.error + epsilon * std::fabs(bounded(wanted)) +
                                                            static_cast<double>(std::numeric_limits<T>::denorm_min());
  } else if constexpr (std::is_floating_point_v<T>) {
    if (agreement == Closeness::same_bits && !std::isnan(expected))
      return std::memcmp(&expected, &actual, sizeof(T)) == 0;
    if (std::isnan(expected) || std::isnan(actual)) return std::isnan(expected) && std::isnan(actual);
    if (expected == actual) return true;
    return std::isfinite(expected) && std::isfinite(actual) &&
           std::fabs(static_cast<double>(expected) - static_cast<double>(actual)) <= facts.error;
  } else {
    return expected == actual;
  }
}
}  // namespace compare_detail

/// How a back end fared.
struct Outcome {
  bool is_declined = false;
  std::string reason;      // of declining
  std::string difference;  // empty: agrees
  explicit operator bool() const { return difference.empty(); }
};

inline std::string first_difference(const KernelCase& test_case, const OperandMemory& expected,
                                    const OperandMemory& actual, const std::vector<Facts>& facts, Closeness agreement) {
  const Kernel& kernel = test_case.kernel;
  for (std::size_t i = 0; i < kernel.operands.size(); ++i) {
    if (std::any_of(test_case.data.begin(), test_case.data.end(),
                    [&](const DataRange& range) { return range.memory_of == static_cast<int>(i); }))
      continue;
    Facts stored;  // operands that are only read must not change at all
    for (const Store& store : kernel.stores)
      if (kernel.accesses[store.access].operand == i) stored = facts[store.value];
    std::string found;
    visit_dtype(kernel.operands[i].dtype, [&](auto tag) {
      using T = std::conditional_t<std::is_same_v<decltype(tag), bool>, std::uint8_t, decltype(tag)>;
      auto *x = reinterpret_cast<const T*>(expected.base[i]), *y = reinterpret_cast<const T*>(actual.base[i]);
      for (std::int64_t k = 0; k < expected.elements[i] && found.empty(); ++k) {
        if (compare_detail::agrees(x[k], y[k], stored, agreement)) continue;
        char text[200];
        std::snprintf(text, sizeof text, "p%zu element %lld: expected %.17g, got %.17g, allowed error %.3g", i,
                      static_cast<long long>(k), static_cast<double>(x[k]), static_cast<double>(y[k]), stored.error);
        found = text;
      }
    });
    if (!found.empty()) return found;
  }
  return {};
}

/// The same kernel over fewer points, within the same memory: compiled code serves every size.
inline BoundGeometry smaller_geometry(const KernelCase& test_case) {
  BoundGeometry geometry = test_case.geometry;
  for (int a = 0; a < test_case.kernel.rank(); ++a) {
    std::int64_t& extent = geometry.extent[static_cast<std::size_t>(a)];
    extent -= extent / (2 + static_cast<std::int64_t>(test_case.seed % 3));
  }
  return geometry;
}

/// Runs the case on both back ends, some cases also over fewer points with the same code, and each launch twice. Which
/// of the legal schedules is used follows from the seed.
inline Outcome compare(Backend& oracle, Backend& tested, const KernelCase& test_case,
                       Closeness agreement = Closeness::within_error) {
  Outcome outcome;
  const auto facts = judge_body(test_case);
  if (!facts) return outcome;
  const std::vector<Schedule> schedules = tested.schedules(test_case.kernel);
  const Schedule& schedule = schedules[test_case.seed % schedules.size()];
  std::snprintf(compare_detail::crash_text, sizeof compare_detail::crash_text, "back end %s, %s, %s",
                tested.cache_key().c_str(), schedule.text().c_str(), describe(test_case).c_str());
  const auto old_segv = std::signal(SIGSEGV, compare_detail::on_crash),
             old_ill = std::signal(SIGILL, compare_detail::on_crash);
  try {
    const auto right = oracle.compile(test_case.kernel, {}, &outcome.reason),
               code = right ? tested.compile(test_case.kernel, schedule, &outcome.reason) : nullptr;
    outcome.is_declined = code == nullptr;
    std::vector<BoundGeometry> geometries;
    if (code) geometries.push_back(test_case.geometry);
    if (code && test_case.seed % 2 == 0) geometries.push_back(smaller_geometry(test_case));
    for (const BoundGeometry& geometry : geometries) {
      OperandMemory expected = make_operands(test_case);
      right->bind(geometry)->run(expected.base.data());
      const auto launch = code->bind(geometry);
      for (int run = 0; run < 2 && outcome.difference.empty(); ++run) {
        OperandMemory actual = make_operands(test_case);
        launch->run(actual.base.data());
        outcome.difference = first_difference(test_case, expected, actual, *facts, agreement);
        if (!outcome.difference.empty() && run == 1) outcome.difference += " (in the second run)";
      }
      if (!outcome.difference.empty() && &geometry != &geometries[0])
        outcome.difference += " (over fewer points with the same code)";
      if (!outcome.difference.empty()) break;
    }
  } catch (const std::exception& error) { outcome.difference = std::string("threw ") + error.what(); }
  if (!outcome.difference.empty()) outcome.difference += " (" + schedule.text() + ")";
  std::signal(SIGSEGV, old_segv), std::signal(SIGILL, old_ill);
  return outcome;
}

/// Makes a case smaller as long as `fails` holds: fewer stores, a shorter body, smaller extents.
class Shrinker {
 public:
  explicit Shrinker(std::function<bool(const KernelCase&)> fails) : fails_(std::move(fails)) {}

  KernelCase shrink(KernelCase test_case) {
    for (bool changed = true; changed && attempts_ < 2000;)
      changed = drop_store(test_case) || shorten_body(test_case) || shrink_extents(test_case);
    return test_case;
  }

 private:
  bool accept(KernelCase& current, KernelCase smaller) {
    if (++attempts_ >= 2000) return false;
    KernelGenerator::prune(smaller);
    try {
      verify(smaller.kernel);
    } catch (const Error&) { return false; }
    if (!keeps_guards(smaller) || !judge_body(smaller) || !fails_(smaller)) return false;
    current = std::move(smaller);
    return true;
  }
  bool drop_store(KernelCase& current) {
    for (std::size_t i = 0; current.kernel.stores.size() > 1 && i < current.kernel.stores.size(); ++i) {
      KernelCase smaller = current;
      smaller.kernel.stores.erase(smaller.kernel.stores.begin() + static_cast<std::ptrdiff_t>(i));
      if (accept(current, std::move(smaller))) return true;
    }
    return false;
  }
  /// Puts an argument of the same dtype, or one, in an instruction's place.
  bool shorten_body(KernelCase& current) {
    for (std::size_t i = current.kernel.body.size(); i-- > 0;) {
      const Inst inst = current.kernel.body[i];
      for (int k = 0; k < arity(inst.prim); ++k) {
        const InstId arg = inst.args[static_cast<std::size_t>(k)];
        if (current.kernel.body[arg].dtype == inst.dtype && keeps_stores(current, i, arg) &&
            accept(current, replaced(current, i, arg)))
          return true;
      }
      if (inst.prim == Prim::immediate || current.kernel.kind == KernelKind::contraction) continue;
      KernelCase smaller = current;
      smaller.kernel.body[i] = {.prim = Prim::immediate,
                                .dtype = inst.dtype,
                                .bits = is_floating(inst.dtype) ? std::bit_cast<std::uint64_t>(1.0) : 1};
      if (keeps_axes(smaller, current) && accept(current, std::move(smaller))) return true;
    }
    return false;
  }
  static KernelCase replaced(const KernelCase& current, std::size_t old_id, InstId new_id) {
    KernelCase smaller = current;
    for (Inst& inst : smaller.kernel.body)
      for (int k = 0; k < arity(inst.prim); ++k)
        if (inst.args[static_cast<std::size_t>(k)] == old_id) inst.args[static_cast<std::size_t>(k)] = new_id;
    for (Store& store : smaller.kernel.stores)
      if (store.value == old_id) store.value = new_id;
    return smaller;
  }
  static bool keeps_stores(const KernelCase& current, std::size_t old_id, InstId new_id) {
    return keeps_axes(replaced(current, old_id, new_id), current);
  }
  /// A store must not come to vary over reduced axes that its access does not, or the other way round.
  static bool keeps_axes(const KernelCase& smaller, const KernelCase& current) {
    const auto now = varying_axes(smaller.kernel), before = varying_axes(current.kernel);
    for (std::size_t i = 0; i < smaller.kernel.stores.size(); ++i)
      for (int a = 0; a < smaller.kernel.rank(); ++a)
        if (smaller.kernel.is_reduced(a) &&
            ((now[smaller.kernel.stores[i].value] ^ before[current.kernel.stores[i].value]) >> a & 1))
          return false;
    return true;
  }
  /// What a guarded load is read under must still keep it inside its memory.
  static bool keeps_guards(const KernelCase& smaller) {
    const Kernel& kernel = smaller.kernel;
    for (const Inst& inst : kernel.body) {
      if (inst.prim != Prim::guarded_load || inst.access >= smaller.guards.size() || !smaller.guards[inst.access])
        continue;
      const GuardBox& box = *smaller.guards[inst.access];
      for (int a = 0; a < kernel.rank(); ++a) {
        const auto k = static_cast<std::size_t>(a);
        if ((box.low[k] > 0 && !requires_bound(kernel, inst.args[0], a, Prim::le, box.low[k])) ||
            (box.high[k] < smaller.geometry.extent[k] &&
             !requires_bound(kernel, inst.args[0], a, Prim::lt, box.high[k])))
          return false;
      }
    }
    return true;
  }
  /// Whether the condition contains low <= index (le) or index < high (lt), among parts that must all hold.
  static bool requires_bound(const Kernel& kernel, InstId condition, int axis, Prim relation, std::int64_t bound) {
    const Inst& inst = kernel.body[condition];
    if (inst.prim == Prim::and_)
      return requires_bound(kernel, inst.args[0], axis, relation, bound) ||
             requires_bound(kernel, inst.args[1], axis, relation, bound);
    if (inst.prim != relation) return false;
    const Inst& index = kernel.body[inst.args[relation == Prim::le ? 1 : 0]];
    const Inst& number = kernel.body[inst.args[relation == Prim::le ? 0 : 1]];
    if (index.prim != Prim::index || index.bits != static_cast<std::uint64_t>(axis)) return false;
    const auto value = static_cast<std::int64_t>(number.bits);
    return number.prim == Prim::immediate && (relation == Prim::le ? value >= bound : value <= bound);
  }
  bool shrink_extents(KernelCase& current) {
    for (int a = 0; a < current.kernel.rank(); ++a) {
      const std::int64_t extent = current.geometry.extent[static_cast<std::size_t>(a)];
      for (std::int64_t smaller_extent : {std::int64_t{1}, extent / 2, extent - extent / 8, extent - 1}) {
        if (smaller_extent < 1 || smaller_extent >= extent) continue;
        KernelCase smaller = current;
        smaller.geometry.extent[static_cast<std::size_t>(a)] = smaller_extent;
        if (accept(current, std::move(smaller))) return true;
      }
    }
    return false;
  }

  std::function<bool(const KernelCase&)> fails_;
  int attempts_ = 0;
};

}  // namespace sinter_test
