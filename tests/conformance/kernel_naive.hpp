// A second oracle, for the reference back end itself: one point at a time by recursion over the body, with nothing but
// the meaning of the primitives in common with it. Slow.
#pragma once

#include "kernel_case.hpp"

#include <sinter/backend/reference/primitives.hpp>
#include <sinter/runtime/backend.hpp>

#include <cstring>
#include <memory>

namespace sinter_test {

namespace naive {
namespace ref = sinter::reference_detail;

/// A value of any dtype, in the first bytes.
using Bits = std::array<unsigned char, 8>;
template <class T>
T get(const Bits& bits) {
  T value;
  std::memcpy(&value, bits.data(), sizeof value);
  return value;
}
template <class T>
Bits put(T value) {
  Bits bits{};
  std::memcpy(bits.data(), &value, sizeof value);
  return bits;
}

class NaiveLaunch final : public Launch {
 public:
  NaiveLaunch(const Kernel& kernel, const BoundGeometry& geometry)
      : kernel_(kernel),
        geometry_(geometry),
        varying_(varying_axes(kernel)),
        cached_(kernel.body.size()),
        is_cached_(kernel.body.size()) {}

  void run(void* const* operands) override {
    operands_ = operands;
    // Outer points one after the other; all values of one before its stores, for operands that are read and written.
    walk(0, AxisRole::parallel, [&] {
      std::vector<std::pair<char*, Bits>> writes;
      std::fill(is_cached_.begin(), is_cached_.end(), false);
      for (const Store& store : kernel_.stores) {
        const auto write = [&] { writes.emplace_back(address(store.access), value(store.value)); };
        if (is_inner(store)) walk(0, AxisRole::reduced, write);
        else write();
      }
      std::size_t next = 0;
      for (const Store& store : kernel_.stores) {
        const DType dtype = dtype_in_memory(kernel_, store.access);
        const std::size_t count = is_inner(store) ? reduced_points() : 1;
        for (std::size_t i = 0; i < count; ++i, ++next) write(writes[next].first, writes[next].second, dtype);
      }
    });
  }

 private:
  template <class Visit>
  void walk(int axis, AxisRole role, const Visit& visit) {
    if (axis == kernel_.rank()) return visit();
    const auto a = static_cast<std::size_t>(axis);
    if (kernel_.axes[a] != role) return walk(axis + 1, role, visit);
    for (at_[a] = 0; at_[a] < geometry_.extent[a]; ++at_[a]) walk(axis + 1, role, visit);
    at_[a] = 0;
  }
  std::size_t reduced_points() {
    std::size_t points = 0;
    walk(0, AxisRole::reduced, [&] { ++points; });
    return points;
  }
  bool is_inner(const Store& store) const {
    for (int a = 0; a < kernel_.rank(); ++a)
      if (kernel_.is_reduced(a) &&
          ((varying_[store.value] >> a & 1) ||
           kernel_.accesses[store.access].stride[static_cast<std::size_t>(a)] != StrideClass::zero))
        return true;
    return false;
  }
  char* address(std::uint16_t access, std::int64_t index = 0) const {
    const auto& numbers = geometry_.accesses[access];
    std::int64_t element = numbers.offset + index * numbers.gather_stride;
    for (int a = 0; a < kernel_.rank(); ++a) {
      const auto k = static_cast<std::size_t>(a);
      element += at_[k] * numbers.stride[k];
    }
    const std::uint16_t operand = kernel_.accesses[access].operand;
    return static_cast<char*>(operands_[operand]) + element * size_of(kernel_.operands[operand].dtype);
  }
  Bits read(const char* from, std::uint16_t access) const {
    return visit_dtype(dtype_in_memory(kernel_, access), [&](auto tag) {
      ref::Stored<decltype(tag)> element;
      std::memcpy(&element, from, sizeof element);
      return put(static_cast<ref::Stored<tensor_detail::Computed<decltype(tag)>>>(element));
    });
  }
  static void write(char* to, const Bits& bits, DType dtype) {
    visit_dtype(dtype, [&](auto tag) {
      const auto element =
          static_cast<ref::Stored<decltype(tag)>>(get<ref::Stored<tensor_detail::Computed<decltype(tag)>>>(bits));
      std::memcpy(to, &element, sizeof element);
    });
  }

  Bits value(InstId id) {
    const Inst& inst = kernel_.body[id];
    if (is_reduction(inst.prim)) {  // does not vary over reduced axes: once per outer point
      if (!is_cached_[id]) {
        const Bits result = inst.prim == Prim::fold ? fold(inst) : visit_computed(inst.dtype, [&](auto tag) {
          return reduce<ref::Stored<decltype(tag)>>(inst);
        });
        cached_[id] = result;
        is_cached_[id] = true;
      }
      return cached_[id];
    }
    if (inst.prim == Prim::immediate)
      return visit_computed(inst.dtype, [&](auto tag) {
        return put(is_floating(inst.dtype) ? static_cast<ref::Stored<decltype(tag)>>(inst.number())
                                           : static_cast<ref::Stored<decltype(tag)>>(inst.integer()));
      });
    if (inst.prim == Prim::load) return read(address(inst.access), inst.access);
    if (inst.prim == Prim::guarded_load)
      return get<unsigned char>(value(inst.args[0])) != 0 ? read(address(inst.access), inst.access)
                                                          : value(inst.args[1]);
    if (inst.prim == Prim::index) return put(at_[inst.bits]);
    std::array<Bits, 3> args;
    const void* in[3];
    for (std::size_t k = 0; k < static_cast<std::size_t>(arity(inst.prim)); ++k)
      args[k] = value(inst.args[k]), in[k] = args[k].data();
    const DType from = kernel_.body[inst.args[0]].dtype;
    if (inst.prim == Prim::gather)
      return read(address(inst.access, from == DType::i32 ? get<std::int32_t>(args[0]) : get<std::int64_t>(args[0])),
                  inst.access);
    Bits out{};
    visit_computed(inst.prim == Prim::select ? inst.dtype : from, [&](auto tag) {
      using T = ref::Stored<decltype(tag)>;
      if (inst.prim == Prim::convert)
        visit_computed(inst.dtype, [&](auto to) { ref::map_convert<ref::Stored<decltype(to)>, T>(out.data(), in, 1); });
      else ref::map_of<T>(inst.prim)(out.data(), in, 1);
    });
    return out;
  }

  template <class T>
  Bits reduce(const Inst& inst) {
    ref::Accumulator<T> sum = ref::neutral<T>(inst.prim);
    const auto outer = at_;
    walk(0, AxisRole::reduced, [&] {
      const Bits a = value(inst.args[0]), b = inst.prim == Prim::contract ? value(inst.args[1]) : Bits{};
      ref::reduce_of<T, false>(inst.prim)(&sum, a.data(), b.data(), 1);
    });
    at_ = outer;
    return put(ref::convert<T>(sum));
  }

  Bits fold(const Inst& inst) {
    const ScalarFold& fold = kernel_.folds[inst.access];
    std::vector<Bits> state;
    for (const FoldState& s : fold.states) state.push_back(immediate({.dtype = s.dtype, .bits = s.bits}));
    const auto outer = at_;
    walk(0, AxisRole::reduced, [&] {
      std::vector<Bits> in = state;
      for (std::size_t k = 0; k < fold.arguments.size(); ++k) in.push_back(value(inst.args[k]));
      state = run_program(fold.step, in);
    });
    at_ = outer;
    return run_program(fold.finish, state)[inst.bits];
  }
  static std::vector<Bits> run_program(const ScalarProgram& program, const std::vector<Bits>& arguments) {
    std::vector<Bits> values, results;
    for (const Inst& inst : program.body) {
      if (inst.prim == Prim::argument) values.push_back(arguments[inst.bits]);
      else if (inst.prim == Prim::immediate) values.push_back(immediate(inst));
      else values.push_back(map(inst, program.body, values));
    }
    for (const InstId result : program.results) results.push_back(values[result]);
    return results;
  }
  static Bits immediate(const Inst& inst) {
    return visit_computed(inst.dtype, [&](auto tag) {
      return put(is_floating(inst.dtype) ? static_cast<ref::Stored<decltype(tag)>>(inst.number())
                                         : static_cast<ref::Stored<decltype(tag)>>(inst.integer()));
    });
  }
  static Bits map(const Inst& inst, const std::vector<Inst>& body, const std::vector<Bits>& values) {
    const void* in[3];
    for (std::size_t k = 0; k < static_cast<std::size_t>(arity(inst.prim)); ++k) in[k] = values[inst.args[k]].data();
    Bits out{};
    visit_computed(inst.prim == Prim::select ? inst.dtype : body[inst.args[0]].dtype, [&](auto tag) {
      using T = ref::Stored<decltype(tag)>;
      if (inst.prim == Prim::convert)
        visit_computed(inst.dtype, [&](auto to) { ref::map_convert<ref::Stored<decltype(to)>, T>(out.data(), in, 1); });
      else ref::map_of<T>(inst.prim)(out.data(), in, 1);
    });
    return out;
  }

  Kernel kernel_;
  BoundGeometry geometry_;
  std::vector<std::uint32_t> varying_;
  std::vector<Bits> cached_;
  std::vector<bool> is_cached_;
  std::array<std::int64_t, max_axes> at_{};
  void* const* operands_ = nullptr;
};

class NaiveExecutable final : public Executable {
 public:
  explicit NaiveExecutable(const Kernel& kernel) : kernel_(kernel) {}
  std::unique_ptr<Launch> bind(const BoundGeometry& geometry) const override {
    return std::make_unique<NaiveLaunch>(kernel_, geometry);
  }

 private:
  Kernel kernel_;
};
}  // namespace naive

class NaiveBackend final : public Backend {
 public:
  std::string_view name() const override { return "naive"; }
  std::string cache_key() const override { return "naive"; }
  Limits limits() const override { return {}; }
  std::shared_ptr<const Executable> compile(const Kernel& kernel, const Schedule&, std::string*) override {
    return std::make_shared<naive::NaiveExecutable>(kernel);
  }
};

}  // namespace sinter_test
