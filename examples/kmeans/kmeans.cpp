// k-means until no label changes, then a look at the clusters along the two directions of largest variance. The
// loops are nodes of the graph: however many iterations the data need, it is one call of one compiled function.
#include <sinter/sinter.hpp>

#include <cstdio>
#include <utility>
#include <vector>

using namespace sinter;

namespace {

constexpr int clusters = 4, features = 6, points_of_each = 100;

/// Normally distributed points around `clusters` places: f32 [n, features].
Tensor make_points() {
  Tensor places = 6 * rand({clusters, features});
  Tensor noise = randn({points_of_each, clusters, features});
  return reshape(places + noise, {-1, features});
}

/// The first point, then again and again the point that is farthest from those chosen.
Tensor spread_centres(Tensor points) {
  Tensor first = points(slice(0, 1), all);
  return jit::fori_loop(
      1, clusters,
      [points](Scalar i, Tensor centres) {
        Tensor nearest = amin(cdist(points, centres), 1);
        centres.at(i) = points(argmax(nearest));
        return centres;
      },
      expand(first, {clusters, -1}));
}

struct Clusters {
  Tensor centres;  // f32 [clusters, features]
  Tensor labels;   // i64 [n]
  Scalar iterations;
};

Clusters kmeans(Tensor points) {
  Tensor start = spread_centres(points);
  auto nearest = [points](Tensor centres) { return argmin(cdist(points, centres), 1); };
  auto [centres, labels, changed, iterations] = jit::while_loop(
      [](Tensor, Tensor, Tensor changed, Scalar) { return changed; },
      [&](Tensor centres, Tensor labels, Tensor, Scalar iterations) {
        Tensor means = segment_mean(points, labels, clusters);
        Tensor moved = where(isnan(means), centres, means);  // a cluster without points stays where it is
        Tensor now = nearest(moved);
        return std::tuple{moved, now, any(now != labels), iterations + 1};
      },
      start, nearest(start), ones({}, {.dtype = DType::bool_}), 0);
  return {centres, labels, iterations};
}

/// Points along the two directions of largest variance: [n, 2]. Of the two opposite ones a direction is that whose
/// first coordinate is positive.
Tensor project(Tensor points) {
  Tensor centred = points - mean(points, 0);
  Tensor directions = linalg::svd(centred, {.full_matrices = false}).vh(slice(0, 2), all);
  Tensor chosen = directions * sign(directions(all, slice(0, 1)));
  return matmul(centred, chosen.t());
}

/// A canvas i64 [rows, columns] with 1 + the label of a point where there is one, else 0.
Tensor draw(Tensor places, Tensor labels, int rows, int columns) {
  Tensor low = amin(places, 0), high = amax(places, 0);
  Tensor size = tensor({columns, rows});
  Tensor cells = minimum(cast((places - low) / (high - low) * size, DType::i64), size - 1);
  Tensor canvas = zeros({rows, columns}, {.dtype = DType::i64});
  canvas.at(cells(all, 1), cells(all, 0)) = labels + 1;
  return canvas;
}

}  // namespace

int main() {
  manual_seed(13);
  Tensor points = make_points();
  auto compiled = jit::compile([](Tensor points) {
    Clusters found = kmeans(points);
    return std::pair(found, draw(project(points), found.labels, 20, 60));
  });
  auto [found, canvas] = compiled(points);

  std::printf("%d iterations; centres and sizes:\n", static_cast<int>(found.iterations));
  Tensor sizes = bincount(found.labels, clusters);
  for (int i = 0; i < clusters; ++i) {
    std::printf("  %c", 'a' + i);
    for (float value : to_vector<float>(found.centres(i))) std::printf(" %5.2f", value);
    std::printf("  %d points\n", item<int>(sizes(i)));
  }
  for (int i = 0; i < 20; ++i) {
    for (int cell : to_vector<int>(canvas(i))) std::putchar(cell == 0 ? ' ' : static_cast<char>('a' + cell - 1));
    std::putchar('\n');
  }
  // Points were made in order: those of one place must have one label.
  Tensor labels = reshape(found.labels, {points_of_each, clusters});
  const double alike = item<double>(mean(cast(labels == labels(0), DType::f64)));
  std::printf("with their own: %.1f %%; compiled %d time\n", 100 * alike, static_cast<int>(compiled.stats().compiles));
  return alike > 0.9 ? 0 : 1;
}
