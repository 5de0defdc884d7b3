// Runs the instructions of a log again, and compares times: what tools/replay builds.
#include <sinter/debug.hpp>
#include <sinter/tensor/device_memory.hpp>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <map>
#include <new>
#include <string>
#include <string_view>
#include <vector>

using namespace sinter;

namespace {

struct Arguments {
  std::string path, backend;
  std::int64_t graph = -1, repeat = 5, top = 40;
};

/// Lines that say the same of a kernel.
struct Row {
  jit::Instruction first;
  std::vector<std::int64_t> times{};  // nanoseconds of its runs in the log
  double logged = 0;                  // of a run: the median, which others on the machine disturb least
  jit::Replayed again{};
  double runs() const { return static_cast<double>(times.size()); }
};
double median_of(std::vector<std::int64_t> times) {
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return static_cast<double>(*middle);
}

[[noreturn]] void fail(const std::string& why) {
  std::cerr << "replay: " << why << "\n";
  std::exit(1);
}
std::int64_t number_of(std::string_view option, std::string_view text, std::int64_t least) {
  std::int64_t value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least)
    fail(std::string(option) + " takes a whole number from " + std::to_string(least) + " on, not '" +
         std::string(text) + "'");
  return value;
}
Arguments arguments_of(int count, char** values) {
  Arguments out;
  for (int i = 1; i < count; ++i) {
    const std::string_view word = values[i];
    if (!word.starts_with("--")) {
      if (!out.path.empty()) fail("one log at a time: " + out.path + " and " + std::string(word));
      out.path = word;
      continue;
    }
    if (++i >= count) fail(std::string(word) + " needs a value");
    if (word == "--graph") out.graph = number_of(word, values[i], 0);
    else if (word == "--repeat") out.repeat = number_of(word, values[i], 1);
    else if (word == "--top") out.top = number_of(word, values[i], 1);
    else if (word == "--backend") out.backend = values[i];
    else fail("there is no option " + std::string(word));
  }
  if (out.path.empty()) fail("name a log");
  return out;
}

/// Lines of one key are one row.
std::string key_of(const jit::Instruction& line) {
  std::string key;
  for (const std::string* part :
       {&line.kernel, &line.kind, &line.device, &line.backend, &line.precision, &line.lines, &line.text})
    key += *part + "\n";
  for (const std::vector<std::int64_t>& strides : line.strides) {
    for (std::int64_t stride : strides) key += std::to_string(stride) + " ";
    key += "\n";
  }
  return key;
}

std::vector<Row> rows_of(const Arguments& arguments) {
  std::map<std::string, std::size_t> places;
  std::vector<Row> rows;
  bool has_graph = false;
  std::size_t failed = 0;
  for (jit::Instruction& each : jit::read_instruction_log(arguments.path)) {
    if (arguments.graph >= 0 && each.graph != arguments.graph) continue;
    has_graph = true;
    failed += each.has_failed;
    if (each.has_failed) continue;  // it took as long as it lived
    const auto [place, is_new] = places.try_emplace(key_of(each), rows.size());
    const std::int64_t time = each.nanoseconds;
    if (is_new) rows.push_back({std::move(each)});
    rows[place->second].times.push_back(time);
  }
  if (arguments.graph >= 0 && !has_graph) fail("no line has graph=" + std::to_string(arguments.graph));
  for (Row& row : rows) row.logged = median_of(row.times);
  if (failed > 0) std::printf("%zu lines failed in the log, and are left out\n", failed);
  return rows;
}
/// What has no memory here is skipped.
jit::Replayed replayed(const jit::Instruction& instruction, const jit::ReplayOptions& options) {
  try {
    return jit::replay(instruction, options);
  } catch (const OutOfMemory&) {
    return {.skipped = "the device has not enough memory for its operands"};
  } catch (const std::bad_alloc&) { return {.skipped = "the host has not enough memory for its operands"}; }
}

void print(const std::vector<Row>& rows, std::int64_t top) {
  std::printf("   logged us    again us   ratio   runs  kernel\n");
  double logged = 0, again = 0, left_out = 0;
  std::int64_t shown = 0, skipped = 0;
  for (const Row& row : rows) {
    const bool is_skipped = !row.again.skipped.empty(), is_control = row.first.kind == "control";
    const double before = row.logged * row.runs();
    skipped += is_skipped;
    if (is_skipped && !is_control) left_out += before;
    if (!is_skipped) logged += before, again += row.again.nanoseconds * row.runs();
    if (++shown > top) continue;
    const std::string head =
        row.first.kernel + " [" + row.first.backend + "]" + (row.first.lines.empty() ? "" : " from " + row.first.lines);
    if (is_skipped)
      std::printf("%12.3f %11s %7s %6zu  %s: not run again: %s\n", row.logged / 1e3, "-", "-", row.times.size(),
                  head.c_str(), row.again.skipped.c_str());
    else
      std::printf("%12.3f %11.3f %7.2f %6zu  %s\n", row.logged / 1e3, row.again.nanoseconds / 1e3,
                  row.again.nanoseconds / std::max(row.logged, 1.0), row.times.size(), head.c_str());
  }
  if (shown > top) std::printf("(%lld rows more: --top)\n", static_cast<long long>(shown - top));
  std::printf("%12.3f %11.3f %7.2f         all runs of %zu kernels\n", logged / 1e3, again / 1e3,
              again / std::max(logged, 1.0), rows.size() - static_cast<std::size_t>(skipped));
  if (skipped > 0)
    std::printf("%lld not run again, %.3f us in the log\n", static_cast<long long>(skipped), left_out / 1e3);
}

}  // namespace

int main(int count, char** values) {
  const Arguments arguments = arguments_of(count, values);
  try {
    std::vector<Row> rows = rows_of(arguments);
    for (Row& row : rows) row.again = replayed(row.first, {.repeat = arguments.repeat, .backend = arguments.backend});
    std::stable_sort(rows.begin(), rows.end(),
                     [](const Row& a, const Row& b) { return a.logged * a.runs() > b.logged * b.runs(); });
    print(rows, arguments.top);
  } catch (const std::exception& error) { fail(error.what()); }
}
