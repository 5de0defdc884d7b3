// Equations: parsing, errors that point into them, diagonals and broadcast letters. Contraction is contract.ipp's.
#pragma once

#include <sinter/expr/einsum.hpp>

#include <sinter/base/index.hpp>
#include <sinter/expr/contract.hpp>
#include <sinter/expr/recording.hpp>

#include <algorithm>
#include <cctype>
#include <map>
#include <string>

SINTER_NAMESPACE_BEGIN
namespace expr_detail {

/// Labels 0 ... are letters by their code; those of `...` count from the last axis on.
inline constexpr int first_ellipsis_label = 256;

/// An equation's letters with their places. `...` is the letter '.'.
struct EquationTerm {
  std::vector<std::pair<char, std::size_t>> letters;
  bool has_ellipsis() const {
    return std::any_of(letters.begin(), letters.end(), [](const auto& letter) { return letter.first == '.'; });
  }
};
struct ParsedEquation {
  std::string_view text;
  std::vector<EquationTerm> operands;
  EquationTerm output;
  bool has_output = false;
};

/// An error at one place of the equation: quoted, and pointed at in the line below.
template <class E>
[[noreturn]] void throw_in_equation(std::string_view text, std::size_t place, const std::string& message,
                                    Location where) {
  throw E("einsum", message + ", in \"" + std::string(text) + "\"", where,
          std::string(text) + "\n  " + std::string(place, ' ') + "^");
}

inline EquationTerm& next_term(ParsedEquation& parsed, std::size_t place, Location where) {
  if (parsed.has_output) throw_in_equation<UserError>(parsed.text, place, "a comma stands in the result", where);
  return parsed.operands.emplace_back();
}

inline ParsedEquation parse_equation(std::string_view text, Location where) {
  ParsedEquation parsed{text, {}, {}, false};
  EquationTerm* term = &next_term(parsed, 0, where);
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == ' ') continue;
    if (std::isalpha(static_cast<unsigned char>(c)) != 0) {
      term->letters.emplace_back(c, i);
    } else if (text.substr(i, 3) == "...") {
      if (term->has_ellipsis()) throw_in_equation<UserError>(text, i, "a second ... in one operand", where);
      term->letters.emplace_back('.', i);
      i += 2;
    } else if (c == ',') {
      term = &next_term(parsed, i, where);
    } else if (text.substr(i, 2) == "->" && !parsed.has_output) {
      parsed.has_output = true;
      term = &parsed.output;
      i += 1;
    } else {
      throw_in_equation<UserError>(text, i, "'" + std::string(1, c) + "' is no letter, comma, ... or ->", where);
    }
  }
  return parsed;
}

/// Letters that stand once, in the order of the alphabet, after the axes of `...`.
inline void derive_output(ParsedEquation& parsed) {
  std::map<char, int> count;
  for (const EquationTerm& operand : parsed.operands)
    for (auto [letter, place] : operand.letters) ++count[letter];
  if (count.contains('.')) parsed.output.letters.emplace_back('.', 0);
  for (auto [letter, times] : count)
    if (letter != '.' && times == 1) parsed.output.letters.emplace_back(letter, 0);
}

/// One label for each axis of an operand of rank `rank`, and the place of each in the equation.
struct AxisLabel {
  int label;
  std::size_t place;
};
inline std::vector<AxisLabel> axis_labels(const ParsedEquation& parsed, const EquationTerm& term, int rank,
                                          const Shape& shape, std::size_t operand, Location where) {
  const int named = static_cast<int>(term.letters.size()) - (term.has_ellipsis() ? 1 : 0), open = rank - named;
  if (open < 0 || (open > 0 && !term.has_ellipsis())) {
    const std::size_t place = term.letters.empty() ? 0 : term.letters.front().second;
    throw_in_equation<ShapeError>(parsed.text, place,
                                  "operand " + std::to_string(operand) + " is " + shape.text() + " and has " +
                                      std::to_string(named) + " letters" + (term.has_ellipsis() ? " and ..." : ""),
                                  where);
  }
  std::vector<AxisLabel> labels;
  for (auto [letter, place] : term.letters) {
    if (letter != '.') labels.push_back({static_cast<unsigned char>(letter), place});
    for (int k = open; letter == '.' && k-- > 0;) labels.push_back({first_ellipsis_label + k, place});
  }
  return labels;
}

inline std::string label_text(int label) {
  return label < first_ellipsis_label ? "'" + std::string(1, static_cast<char>(label)) + "'" : "an axis of ...";
}

/// The extent of each label: that of all operands that do not stretch from 1.
inline std::map<int, Dim> label_extents(const ParsedEquation& parsed, std::span<const Tensor> operands,
                                        const std::vector<std::vector<AxisLabel>>& labels, Location where) {
  std::map<int, Dim> extents;
  for (std::size_t k = 0; k < operands.size(); ++k)
    for (std::size_t i = 0; i < labels[k].size(); ++i) {
      const Dim extent = operands[k].shape()[static_cast<int>(i)];
      const auto [label, place] = labels[k][i];
      const auto [known, is_new] = extents.emplace(label, extent);
      if (is_new || stretches(extent, known->second)) continue;
      if (stretches(known->second, extent)) known->second = extent;
      else if (!(known->second == extent))
        throw_in_equation<ShapeError>(parsed.text, place,
                                      label_text(label) + " of operand " + std::to_string(k) + " has extent " +
                                          extent.text() + ", elsewhere it has " + known->second.text(),
                                      where);
    }
  return extents;
}

/// Each label once: axes that stretch from 1 are dropped, equal labels become their diagonal.
inline Labelled with_distinct_labels(Tensor x, const std::vector<AxisLabel>& labels, const std::map<int, Dim>& extents,
                                     Location where) {
  std::vector<int> left;
  std::vector<int> dropped;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const bool is_stretched = stretches(x.shape()[static_cast<int>(i)], extents.at(labels[i].label));
    if (is_stretched) dropped.push_back(static_cast<int>(i));
    else left.push_back(labels[i].label);
  }
  if (!dropped.empty()) x = squeeze(In(x, where), Axes(dropped));
  for (std::size_t i = 0; i < left.size(); ++i) {
    const int label = left[i];
    const auto again = std::find(left.begin() + static_cast<std::ptrdiff_t>(i) + 1, left.end(), label);
    if (again == left.end()) continue;
    x = diagonal(In(x, where), 0, static_cast<int>(i), static_cast<int>(again - left.begin()));
    left.erase(again);
    left.erase(left.begin() + static_cast<std::ptrdiff_t>(i));
    left.push_back(label);
    --i;
  }
  return {std::move(x), std::move(left)};
}

inline std::vector<int> output_labels(const ParsedEquation& parsed, const std::map<int, Dim>& extents, Location where) {
  std::vector<int> labels;
  for (auto [letter, place] : parsed.output.letters) {
    if (letter == '.') {
      for (auto at = extents.rbegin(); at != extents.rend() && at->first >= first_ellipsis_label; ++at)
        labels.push_back(at->first);
      continue;
    }
    const int label = static_cast<unsigned char>(letter);
    if (!extents.contains(label))
      throw_in_equation<UserError>(parsed.text, place, "the result's " + label_text(label) + " is in no operand",
                                   where);
    if (std::find(labels.begin(), labels.end(), label) != labels.end())
      throw_in_equation<UserError>(parsed.text, place, label_text(label) + " stands twice in the result", where);
    labels.push_back(label);
  }
  return labels;
}

}  // namespace expr_detail

SINTER_DECL Tensor einsum(Equation equation, std::span<const Tensor> operands) {
  const Location where = equation.where;
  expr_detail::ParsedEquation parsed = expr_detail::parse_equation(equation.text, where);
  if (parsed.operands.size() != operands.size() || operands.size() > 60)
    throw UserError("einsum",
                    "\"" + std::string(equation.text) + "\" names " + std::to_string(parsed.operands.size()) +
                        " operands, " + std::to_string(operands.size()) + " are given",
                    where, operands.size() > 60 ? "60 are possible" : "commas separate the operands");
  DType dtype = operands[0].dtype();
  for (const Tensor& operand : operands) dtype = promote(dtype, operand.dtype(), "einsum", where);
  if (dtype == DType::bool_)
    throw DTypeError("einsum", "operands are bool, numbers are required", where, "cast with .to(DType::i64)");
  if (!parsed.has_output) expr_detail::derive_output(parsed);
  std::vector<std::vector<expr_detail::AxisLabel>> labels;
  for (std::size_t k = 0; k < operands.size(); ++k)
    labels.push_back(
        expr_detail::axis_labels(parsed, parsed.operands[k], operands[k].rank(), operands[k].shape(), k, where));
  const std::map<int, Dim> extents = expr_detail::label_extents(parsed, operands, labels, where);
  const std::vector<int> output = expr_detail::output_labels(parsed, extents, where);
  std::vector<expr_detail::Labelled> distinct;
  for (std::size_t k = 0; k < operands.size(); ++k)
    distinct.push_back(
        expr_detail::with_distinct_labels(cast(In(operands[k], where), dtype), labels[k], extents, where));
  return expr_detail::contract(std::move(distinct), output, where);
}
SINTER_DECL Tensor einsum(Equation equation, std::initializer_list<Tensor> operands) {
  return einsum(equation, std::span<const Tensor>(operands.begin(), operands.size()));
}
SINTER_DECL Tensor tensor_detail::einsum_of(Equation equation, std::initializer_list<Tensor> operands) {
  return einsum(equation, operands);
}

SINTER_NAMESPACE_END
