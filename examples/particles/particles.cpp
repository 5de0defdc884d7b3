// Neighbours of particles by a list of cells: a sort puts those of one cell side by side, and each looks at the nine
// cells around it, not at all others. All of it is sorts, counts, running sums, gathers and sums of segments.
#include <sinter/sinter.hpp>

#include <cstdio>
#include <vector>

using namespace sinter;

namespace {

constexpr int side = 12;  // cells along an axis; one is as wide as the radius
constexpr double radius = 1.0 / side;

/// Positions ordered by cell, and where each cell begins.
struct CellList {
  Tensor positions;  // f32 [n, 2], in the unit square
  Tensor cells;      // i64 [n], row * side + column
  Tensor counts;     // i64 [side * side]
  Tensor offsets;    // i64 [side * side]
};

CellList sort_by_cell(Tensor positions) {
  Tensor places = clamp(cast(floor(positions * side), DType::i64), 0, side - 1);
  Tensor cells = places(all, 1) * side + places(all, 0);
  Tensor counts = bincount(cells, side * side);
  Tensor offsets = cumsum(counts, 0, {.exclusive = true});
  Tensor order = argsort(cells);
  return {take(positions, order), take(cells, order), counts, offsets};
}

/// The number of other particles within the radius, i64 [n]; no cell holds more than `capacity`.
Tensor count_neighbours(const CellList& list, int capacity) {
  // Axes: particle, one of nine cells, place in the cell.
  Tensor step = arange(-1, 2);
  Tensor row = floor_divide(list.cells, side), column = list.cells % side;
  Tensor rows = reshape(row, {-1, 1, 1}) + reshape(step, {1, 3, 1});
  Tensor columns = reshape(column, {-1, 1, 1}) + reshape(step, {1, 1, 3});
  Tensor inside = flatten((rows >= 0) & (rows < side) & (columns >= 0) & (columns < side), 1);
  Tensor near = flatten(clamp(rows, 0, side - 1) * side + clamp(columns, 0, side - 1), 1);

  Tensor place = arange(capacity);
  Tensor exists = unsqueeze(inside, 2) & (place < unsqueeze(take(list.counts, near), 2));
  Tensor other = where(exists, unsqueeze(take(list.offsets, near), 2) + place, 0);
  Tensor apart = take(list.positions, other) - reshape(list.positions, {-1, 1, 1, 2});
  Tensor found = exists & (sum(square(apart), -1) < radius * radius);
  return sum(found, {1, 2}) - 1;  // not the particle itself
}

void print_map(Tensor means) {
  const std::vector<int> values = to_vector<int>(round(means));
  for (int i = 0; i < side * side; ++i)
    std::printf("%4d%s", values[static_cast<std::size_t>(i)], i % side == side - 1 ? "\n" : "");
}

}  // namespace

int main() {
  manual_seed(13);
  Tensor positions = square(rand({1500, 2}));  // denser towards a corner
  CellList list = jit::compile(sort_by_cell)(positions);
  const int capacity = item<int>(amax(list.counts));
  Tensor neighbours =
      jit::compile([capacity](const CellList& cells) { return count_neighbours(cells, capacity); })(list);

  std::printf("mean number of neighbours of the particles in each cell\n");
  print_map(segment_mean(cast(neighbours, DType::f32), list.cells, side * side));
  std::printf("particles in a cell: %d at most; neighbours: %d at most\n", capacity, item<int>(amax(neighbours)));

  Tensor squares = sum(square(unsqueeze(list.positions, 1) - unsqueeze(list.positions, 0)), -1);
  const Agreement agreement = array_equal(neighbours, sum(squares < radius * radius, 1) - 1);
  std::printf("as by all pairs: %s\n", agreement ? "yes" : agreement.text().c_str());
  return agreement ? 0 : 1;
}
