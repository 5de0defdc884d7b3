// Arithmetic of ranks in a grid.
#pragma once

#include <sinter/dist/mesh.hpp>

#include <sinter/base/index.hpp>

#include <algorithm>

SINTER_NAMESPACE_BEGIN
namespace dist {

SINTER_DECL std::string Axis::text() const {
  if (names.empty()) return "all ranks";
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "'" : " and '") + name + "'";
  return text;
}

SINTER_DECL Mesh::Mesh(std::vector<MeshAxis> axes, Location where) : axes_(std::move(axes)) {
  for (std::size_t i = 0; i < axes_.size(); ++i) {
    if (axes_[i].size < 1 || axes_[i].name.empty())
      throw UserError("Mesh", "axis '" + axes_[i].name + "' has " + std::to_string(axes_[i].size) + " ranks", where,
                      "an axis has a name and at least one rank");
    for (std::size_t k = 0; k < i; ++k)
      if (axes_[k].name == axes_[i].name)
        throw UserError("Mesh", "two axes are named '" + axes_[i].name + "'", where, "give each its own name");
  }
}

SINTER_DECL std::vector<bool> Mesh::chosen(const Axis& axis, Location where) const {
  if (axis.names.empty()) return std::vector<bool>(axes_.size(), true);
  std::vector<bool> out(axes_.size(), false);
  for (const std::string& name : axis.names) {
    const auto found = std::find_if(axes_.begin(), axes_.end(), [&](const MeshAxis& a) { return a.name == name; });
    if (found == axes_.end())
      throw UserError("Mesh", "there is no axis '" + name + "' in the mesh " + text(), where,
                      axes_.empty() ? "give dist::run or dist::MeshScope a mesh that has it"
                                    : "name one of its axes, or none for all ranks");
    out[as_index(found - axes_.begin())] = true;
  }
  return out;
}

SINTER_DECL int Mesh::size() const {
  int size = 1;
  for (const MeshAxis& axis : axes_) size *= axis.size;
  return size;
}

SINTER_DECL int Mesh::size(const Axis& axis, Location where) const {
  const std::vector<bool> is_chosen = chosen(axis, where);
  int size = 1;
  for (std::size_t i = 0; i < axes_.size(); ++i)
    if (is_chosen[i]) size *= axes_[i].size;
  return size;
}

SINTER_DECL int Mesh::index(int rank, const Axis& axis, Location where) const {
  const std::vector<bool> is_chosen = chosen(axis, where);
  int index = 0, stride = 1;
  for (std::size_t i = axes_.size(); i-- > 0;) {
    if (is_chosen[i]) {
      index += rank % axes_[i].size * stride;
      stride *= axes_[i].size;
    }
    rank /= axes_[i].size;
  }
  return index;
}

SINTER_DECL std::vector<int> Mesh::group(int rank, const Axis& axis, Location where) const {
  const std::vector<bool> is_chosen = chosen(axis, where);
  std::vector<int> ranks{0};
  int rest = size();
  for (std::size_t i = 0; i < axes_.size(); ++i) {
    rest /= axes_[i].size;
    const int here = rank / rest % axes_[i].size;
    std::vector<int> next;
    for (const int start : ranks)
      for (int k = 0; k < axes_[i].size; ++k)
        if (is_chosen[i] || k == here) next.push_back(start + k * rest);
    ranks = std::move(next);
  }
  return ranks;
}

SINTER_DECL std::string Mesh::text() const {
  if (axes_.empty()) return "without axes";
  std::string text;
  for (const MeshAxis& axis : axes_) text += (text.empty() ? "(" : ", ") + axis.name + " " + std::to_string(axis.size);
  return text + ")";
}

}  // namespace dist
SINTER_NAMESPACE_END
