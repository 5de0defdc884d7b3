// Each value made of guarded loads and selects is written as decisions over comparisons of indices, those along the row
// first; what is decided by the others becomes one access.
#pragma once

#include <sinter/backend/x86/nest/row_pieces.hpp>

#include <sinter/base/index.hpp>

#include <algorithm>
#include <array>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace x86 {

SINTER_DECL std::optional<IndexBound> index_bound(const Kernel& kernel, InstId id) {
  const Inst& inst = kernel.body[id];
  if (inst.prim != Prim::lt || kernel.body[inst.args[0]].prim != Prim::index) return std::nullopt;
  const Inst& number = kernel.body[inst.args[1]];
  const auto is_zero = [](StrideClass stride) { return stride == StrideClass::zero; };
  const bool is_number =
      number.prim == Prim::load && dtype_in_memory(kernel, number.access) == DType::i64 &&
      std::all_of(kernel.accesses[number.access].stride.begin(), kernel.accesses[number.access].stride.end(), is_zero);
  if (number.prim != Prim::immediate && !is_number) return std::nullopt;
  return IndexBound{static_cast<int>(kernel.body[inst.args[0]].bits), inst.args[1]};
}

namespace x86_detail {

class PieceChooser {
 public:
  explicit PieceChooser(const Kernel& kernel) : k_(kernel), made_(kernel.body.size(), no_inst) {}
  std::optional<RowPieces> run();

 private:
  /// Decisions double with each comparison; parts of parts have as many instructions as there are parts.
  static constexpr std::size_t most_bounds = 6, most_parts = 64;
  struct Fact {
    InstId bound = no_inst;
    bool holds = false;
  };
  using Known = SmallVector<Fact, most_bounds>;
  /// A decision by comparison `bound`, or a leaf: what is loaded through `access`, or the value `fill`.
  struct Decision {
    InstId bound = no_inst;
    std::uint32_t below = 0, otherwise = 0;
    std::uint16_t access = 0;
    InstId fill = no_inst;
    Usually hint = Usually::holds;  // of the load
    bool is_load() const { return bound == no_inst && fill == no_inst; }
    friend bool operator==(const Decision&, const Decision&) = default;
  };
  struct Tree {
    SmallVector<InstId, most_bounds> columns, rows;
    std::size_t parts = 0;
    std::uint32_t root = 0;
    InstId fill = no_inst;
  };
  struct Reads {  // of a decision by rows
    SmallVector<std::uint16_t, 8> accesses;
    bool may_fill = false, is_usual = false, is_known = true;
    /// What is read at most points by one of the accesses is usual for all.
    Usually usually() const { return is_usual ? Usually::holds : is_known ? Usually::fails : Usually::unknown; }
  };

  bool is_row_bound(InstId id) const { return index_bound(k_, id)->axis != k_.rank() - 1; }
  bool is_decided(InstId condition) const;
  bool decides(const Inst& inst) const {
    return (inst.prim == Prim::guarded_load || inst.prim == Prim::select) && is_decided(inst.args[0]);
  }
  template <class List>
  static void add_once(List& list, InstId id) {
    if (std::find(list.begin(), list.end(), id) == list.end()) list.push_back(id);
  }
  void add_bounds(InstId condition, Tree& tree) const;
  bool collect(InstId id, Tree& tree) const;
  bool holds(InstId condition, const Known& known) const;
  Decision leaf_of(InstId id, const Known& known) const;
  std::uint32_t intern(const Decision& decision);
  std::uint32_t decide(InstId id, const Tree& tree, std::size_t bound, Known& known);
  bool is_by_column(std::uint32_t number) const {
    const Decision& decision = decisions_[number];
    return decision.bound != no_inst && !is_row_bound(decision.bound);
  }
  void add_reads(std::uint32_t number, Reads& reads) const;
  std::optional<Tree> tree_of(InstId id);
  bool gains(std::uint32_t number, Tree& tree, DType dtype, bool& is_possible) const;
  void follow_bounds(std::uint32_t number, Access& access) const;
  std::uint16_t access_of(std::uint32_t number, const Reads& reads);
  std::uint16_t choice_of(std::uint32_t number, std::uint16_t any_access);
  int bound_number(InstId bound);
  ScalarValue boolean(InstId id) { return {build(id), DType::bool_}; }
  /// Where the paths from one decision to another lead; no value: everywhere.
  using Condition = std::optional<ScalarValue>;
  ScalarValue where_read(std::uint32_t number);
  void add_piece(std::uint32_t number, const Condition& condition, DType dtype, InstId& value);
  void add_columns(std::uint32_t number, const Condition& condition, DType dtype, InstId& value);
  InstId build(InstId id);

  const Kernel& k_;
  ScalarBuilder builder_;
  std::vector<InstId> made_;
  std::vector<Decision> decisions_;
  std::vector<std::pair<std::uint32_t, std::uint16_t>> chosen_;  // decisions by rows that have accesses
  std::vector<Access> accesses_;
  RowPieces pieces_;
};

/// Does it follow from comparisons of indices alone?
SINTER_DECL bool PieceChooser::is_decided(InstId condition) const {
  const Inst& inst = k_.body[condition];
  if (inst.prim == Prim::not_) return is_decided(inst.args[0]);
  if (inst.prim == Prim::and_ || inst.prim == Prim::or_) return is_decided(inst.args[0]) && is_decided(inst.args[1]);
  return inst.prim == Prim::immediate || index_bound(k_, condition).has_value();
}

SINTER_DECL void PieceChooser::add_bounds(InstId condition, Tree& tree) const {
  const Inst& inst = k_.body[condition];
  if (inst.prim == Prim::immediate) return;
  if (inst.prim == Prim::lt) {
    if (is_row_bound(condition)) add_once(tree.rows, condition);
    else add_once(tree.columns, condition);
    return;
  }
  for (int a = 0; a < arity(inst.prim); ++a) add_bounds(inst.args[as_index(a)], tree);
}

/// The comparisons that a value is decided by. False: there are too many.
SINTER_DECL bool PieceChooser::collect(InstId id, Tree& tree) const {
  const Inst& inst = k_.body[id];
  if (!decides(inst)) return true;
  add_bounds(inst.args[0], tree);
  if (tree.rows.size() + tree.columns.size() > most_bounds || ++tree.parts > most_parts) return false;
  return collect(inst.args[1], tree) && (inst.prim != Prim::select || collect(inst.args[2], tree));
}

SINTER_DECL bool PieceChooser::holds(InstId condition, const Known& known) const {
  const Inst& inst = k_.body[condition];
  if (inst.prim == Prim::immediate) return inst.bits != 0;
  if (inst.prim == Prim::not_) return !holds(inst.args[0], known);
  if (inst.prim == Prim::and_) return holds(inst.args[0], known) && holds(inst.args[1], known);
  if (inst.prim == Prim::or_) return holds(inst.args[0], known) || holds(inst.args[1], known);
  const auto found = std::find_if(known.begin(), known.end(), [&](const auto& k) { return k.bound == condition; });
  return found->holds;
}

SINTER_DECL PieceChooser::Decision PieceChooser::leaf_of(InstId id, const Known& known) const {
  for (;;) {
    const Inst& inst = k_.body[id];
    if (inst.prim == Prim::load) return {.access = inst.access};
    if (!decides(inst)) return {.fill = id};
    const bool is_true = holds(inst.args[0], known);
    if (inst.prim == Prim::guarded_load && is_true) return {.access = inst.access, .hint = inst.usually()};
    id = inst.args[inst.prim == Prim::select && !is_true ? 2 : 1];
  }
}

SINTER_DECL std::uint32_t PieceChooser::intern(const Decision& decision) {
  const auto found = std::find(decisions_.begin(), decisions_.end(), decision);
  if (found == decisions_.end())
    return decisions_.push_back(decision), static_cast<std::uint32_t>(decisions_.size() - 1);
  return static_cast<std::uint32_t>(found - decisions_.begin());
}

SINTER_DECL std::uint32_t PieceChooser::decide(InstId id, const Tree& tree, std::size_t bound, Known& known) {
  if (bound == tree.columns.size() + tree.rows.size()) return intern(leaf_of(id, known));
  const InstId by = bound < tree.columns.size() ? tree.columns[bound] : tree.rows[bound - tree.columns.size()];
  known.push_back({by, true});
  const std::uint32_t below = decide(id, tree, bound + 1, known);
  known.back().holds = false;
  const std::uint32_t otherwise = decide(id, tree, bound + 1, known);
  known.pop_back();
  return below == otherwise ? below : intern({.bound = by, .below = below, .otherwise = otherwise});
}

SINTER_DECL void PieceChooser::add_reads(std::uint32_t number, Reads& reads) const {
  const Decision& decision = decisions_[number];
  if (decision.bound != no_inst) {
    add_reads(decision.below, reads);
    add_reads(decision.otherwise, reads);
  } else if (decision.is_load()) {
    if (std::find(reads.accesses.begin(), reads.accesses.end(), decision.access) == reads.accesses.end())
      reads.accesses.push_back(decision.access);
    reads.is_usual = reads.is_usual || decision.hint == Usually::holds;
    reads.is_known = reads.is_known && decision.hint != Usually::unknown;
  } else {
    reads.may_fill = true;
  }
}

/// Is there a choice by rows below the decision? Not possible: several fills, or loads of several kinds.
SINTER_DECL bool PieceChooser::gains(std::uint32_t number, Tree& tree, DType dtype, bool& is_possible) const {
  const Decision& decision = decisions_[number];
  if (is_by_column(number)) {
    const bool below = gains(decision.below, tree, dtype, is_possible);
    return gains(decision.otherwise, tree, dtype, is_possible) || below;
  }
  if (decision.bound == no_inst && decision.fill != no_inst) {
    is_possible = is_possible && (tree.fill == no_inst || tree.fill == decision.fill);
    tree.fill = decision.fill;
    return false;
  }
  if (decision.bound != no_inst) {
    const auto look = [&](auto&& self, std::uint32_t n) -> void {
      if (decisions_[n].bound == no_inst) {
        gains(n, tree, dtype, is_possible);
        return;
      }
      self(self, decisions_[n].below);
      self(self, decisions_[n].otherwise);
    };
    look(look, number);
  }
  Reads reads;
  add_reads(number, reads);
  const auto vector_axis = as_index(k_.rank() - 1);
  for (const std::uint16_t access : reads.accesses) {
    const StrideClass stride = k_.accesses[access].stride[vector_axis];
    is_possible = is_possible && stride <= StrideClass::unit &&
                  stride == k_.accesses[reads.accesses[0]].stride[vector_axis] && dtype_in_memory(k_, access) == dtype;
  }
  return reads.accesses.size() > 1;
}

SINTER_DECL std::optional<PieceChooser::Tree> PieceChooser::tree_of(InstId id) {
  Tree tree;
  if (!decides(k_.body[id]) || !collect(id, tree) || tree.rows.empty()) return std::nullopt;
  Known known;
  tree.root = decide(id, tree, 0, known);
  Reads reads;
  add_reads(tree.root, reads);
  if (reads.accesses.size() < 2) return std::nullopt;
  bool is_possible = true;
  const bool is_gain = gains(tree.root, tree, dtype_in_memory(k_, reads.accesses[0]), is_possible);
  if (!is_gain || !is_possible) return std::nullopt;
  return tree;
}

SINTER_DECL int PieceChooser::bound_number(InstId bound) {
  const IndexBound old = *index_bound(k_, bound), wanted{old.axis, build(old.number)};
  const auto found = std::find(pieces_.bounds.begin(), pieces_.bounds.end(), wanted);
  if (found == pieces_.bounds.end())
    return pieces_.bounds.push_back(wanted), static_cast<int>(pieces_.bounds.size() - 1);
  return static_cast<int>(found - pieces_.bounds.begin());
}

/// Where nothing is read, any access does.
SINTER_DECL std::uint16_t PieceChooser::choice_of(std::uint32_t number, std::uint16_t any_access) {
  const Decision decision = decisions_[number];
  RowPieces::Choice choice{.access = decision.is_load() ? decision.access : any_access};
  if (decision.bound != no_inst) {
    choice.bound = bound_number(decision.bound);
    choice.below = choice_of(decision.below, any_access);
    choice.otherwise = choice_of(decision.otherwise, any_access);
  }
  pieces_.choices.push_back(choice);
  return static_cast<std::uint16_t>(pieces_.choices.size() - 1);
}

/// What is chosen changes along the axes that decide, also where no piece has a stride.
SINTER_DECL void PieceChooser::follow_bounds(std::uint32_t number, Access& access) const {
  const Decision& decision = decisions_[number];
  if (decision.bound == no_inst) return;
  access.stride[as_index(index_bound(k_, decision.bound)->axis)] = StrideClass::any;
  follow_bounds(decision.below, access);
  follow_bounds(decision.otherwise, access);
}

SINTER_DECL std::uint16_t PieceChooser::access_of(std::uint32_t number, const Reads& reads) {
  if (reads.accesses.size() == 1) return reads.accesses[0];
  for (const auto& [decision, access] : chosen_)
    if (decision == number) return access;
  Access access = accesses_[reads.accesses[0]];
  for (const std::uint16_t other : reads.accesses)
    for (std::size_t a = 0; a < max_axes; ++a)
      if (accesses_[other].stride[a] != access.stride[a]) access.stride[a] = StrideClass::any;
  follow_bounds(number, access);
  pieces_.roots.push_back(choice_of(number, reads.accesses[0]));
  accesses_.push_back(access);
  chosen_.emplace_back(number, static_cast<std::uint16_t>(accesses_.size() - 1));
  return chosen_.back().second;
}

/// The rows in which a decision by rows reads.
SINTER_DECL ScalarValue PieceChooser::where_read(std::uint32_t number) {
  const Decision decision = decisions_[number];
  if (decision.bound == no_inst) return builder_.imm_int(decision.is_load(), DType::bool_);
  const ScalarValue bound = boolean(decision.bound), below = where_read(decision.below),
                    otherwise = where_read(decision.otherwise);
  return builder_.or_(builder_.and_(bound, below), builder_.and_(builder_.not_(bound), otherwise));
}

SINTER_DECL void PieceChooser::add_piece(std::uint32_t number, const Condition& condition, DType dtype, InstId& value) {
  Reads reads;
  add_reads(number, reads);
  if (reads.accesses.empty()) return;
  Condition all = condition;
  if (reads.may_fill) {
    const ScalarValue rows = where_read(number);
    all = all ? builder_.and_(*all, rows) : rows;
  }
  const std::uint16_t access = access_of(number, reads);
  Inst inst{.prim = Prim::load, .dtype = dtype, .access = access};
  if (all) {
    inst.prim = Prim::guarded_load;
    inst.args = {all->id, value, no_inst};
    inst.bits = static_cast<std::uint64_t>(reads.usually());
  }
  value = builder_.push(inst).id;
}

SINTER_DECL void PieceChooser::add_columns(std::uint32_t number, const Condition& condition, DType dtype,
                                           InstId& value) {
  if (!is_by_column(number)) return add_piece(number, condition, dtype, value);
  const Decision decision = decisions_[number];
  const ScalarValue below = boolean(decision.bound), otherwise = builder_.not_(below);
  add_columns(decision.below, condition ? builder_.and_(*condition, below) : below, dtype, value);
  add_columns(decision.otherwise, condition ? builder_.and_(*condition, otherwise) : otherwise, dtype, value);
}

SINTER_DECL InstId PieceChooser::build(InstId id) {
  if (made_[id] != no_inst) return made_[id];
  Inst inst = k_.body[id];
  InstId value = no_inst;
  if (const std::optional<Tree> tree = tree_of(id)) {
    value =
        tree->fill != no_inst ? build(tree->fill) : builder_.push({.prim = Prim::immediate, .dtype = inst.dtype}).id;
    add_columns(tree->root, std::nullopt, inst.dtype, value);
  } else {
    for (int a = 0; a < arity(inst.prim); ++a) inst.args[as_index(a)] = build(inst.args[as_index(a)]);
    value = builder_.push(inst).id;
  }
  made_[id] = value;
  return value;
}

SINTER_DECL std::optional<RowPieces> PieceChooser::run() {
  const bool has_guards =
      std::any_of(k_.body.begin(), k_.body.end(), [](const Inst& inst) { return inst.prim == Prim::guarded_load; });
  if (!has_guards || k_.kind != KernelKind::pointwise || k_.rank() < 2) return std::nullopt;
  accesses_ = k_.accesses;
  pieces_.first_chosen = accesses_.size();
  std::vector<Store> stores = k_.stores;
  for (Store& store : stores) store.value = build(store.value);
  if (pieces_.roots.empty()) return std::nullopt;
  pieces_.kernel = k_;
  pieces_.kernel.accesses = std::move(accesses_);
  pieces_.kernel.stores = std::move(stores);
  pieces_.kernel.body = builder_.take();
  return std::move(pieces_);
}

}  // namespace x86_detail

SINTER_DECL std::optional<RowPieces> choose_pieces_by_row(const Kernel& kernel) {
  return x86_detail::PieceChooser(kernel).run();
}

}  // namespace x86
SINTER_NAMESPACE_END
