// Random kernels with scans: elementwise ones of which an axis becomes the scans' own, so that what is stored is a scan
// of what it was, a scan of a scan, or made from several.
#pragma once

#include "kernel_random.hpp"

namespace sinter_test {

class ScanGenerator {
 public:
  explicit ScanGenerator(std::uint64_t seed) : random_(seed ^ 0x5CA7) {
    for (;; seed += 0x9E3779B97F4A7C15ull) {
      case_ = KernelGenerator(seed).generate();
      if (case_.kernel.kind == KernelKind::pointwise) break;
    }
  }

  KernelCase generate() {
    Kernel& kernel = case_.kernel;
    const int axis = random_.chance(60) ? kernel.rank() - 1 : static_cast<int>(random_.integer(0, kernel.rank() - 1));
    kernel.axes[static_cast<std::size_t>(axis)] = AxisRole::reduced;
    kernel.kind = axis + 1 == kernel.rank() ? KernelKind::row : KernelKind::column;
    bool has_scan = false;
    for (std::size_t s = 0; s < kernel.stores.size(); ++s)
      if (!has_scan || random_.chance(70)) has_scan |= scan_store(s);
    if (!has_scan) return ScanGenerator(random_.next()).generate();
    KernelGenerator::prune(case_);
    return case_;
  }

 private:
  bool scan_store(std::size_t s) {
    const InstId value = case_.kernel.stores[s].value;
    const DType dtype = case_.kernel.body[value].dtype;
    if (dtype == DType::bool_) return false;
    const InstId scan = add_scan(value);
    if (scan == no_inst) return false;
    InstId both = no_inst;
    if (random_.chance(25)) both = add_scan(scan);
    if (random_.chance(25)) {
      const InstId other = add_scan(value);
      if (other != no_inst) both = add({.prim = Prim::max, .dtype = dtype, .args = {scan, other, no_inst}});
    }
    if (both == no_inst && random_.chance(30))
      both = add({.prim = Prim::add, .dtype = dtype, .args = {scan, value, no_inst}});
    case_.kernel.stores[s].value = both != no_inst ? both : scan;
    return true;
  }
  InstId add_scan(InstId value) {
    const Prim prim =
        random_.pick(std::vector{Prim::scan_add, Prim::scan_add, Prim::scan_mul, Prim::scan_min, Prim::scan_max});
    const bool may_be_exclusive = prim == Prim::scan_add || prim == Prim::scan_mul;  // nothing has no least number
    return add({.prim = prim,
                .dtype = case_.kernel.body[value].dtype,
                .args = {value, no_inst, no_inst},
                .bits = static_cast<std::uint64_t>(may_be_exclusive && random_.chance(30))});
  }
  /// Where right back ends must agree about it.
  InstId add(const Inst& inst) {
    case_.kernel.body.push_back(inst);
    if (judge_body(case_)) return static_cast<InstId>(case_.kernel.body.size() - 1);
    case_.kernel.body.pop_back();
    return no_inst;
  }

  Random random_;
  KernelCase case_;
};

}  // namespace sinter_test
