// Checkpoints are files of safetensors; the step stands in the metadata and in the name.
#pragma once

#include <sinter/io/checkpoint.hpp>

#include <sinter/expr/creation.hpp>
#include <sinter/io/safetensors.hpp>

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace io {
namespace io_detail {

inline constexpr std::string_view checkpoint_prefix = "checkpoint_", checkpoint_suffix = ".safetensors";
inline constexpr const char *generator_key = "sinter.generator.key", *generator_counter = "sinter.generator.counter";
inline constexpr const char* note_prefix = "note.";

inline std::string checkpoint_path(const std::string& folder, std::int64_t step) {
  char digits[32];
  std::snprintf(digits, sizeof digits, "%010lld", static_cast<long long>(step));
  return folder + "/" + std::string(checkpoint_prefix) + digits + std::string(checkpoint_suffix);
}

/// The number in a file's name as checkpoint_path() makes it, or -1.
inline std::int64_t step_of_name(std::string_view name) {
  constexpr std::size_t digits = 10;
  if (!name.starts_with(checkpoint_prefix) || !name.ends_with(checkpoint_suffix)) return -1;
  name.remove_prefix(checkpoint_prefix.size());
  name.remove_suffix(checkpoint_suffix.size());
  if (name.size() < digits || (name.size() > digits && name.front() == '0')) return -1;
  std::int64_t step = -1;
  const auto [stop, status] = std::from_chars(name.data(), name.data() + name.size(), step);
  return status == std::errc() && stop == name.data() + name.size() ? step : -1;
}

/// Is it what AtomicFile writes until a checkpoint is whole: its name, a dot, a process, a dash, a number?
inline bool is_unfinished(std::string_view name) {
  const auto dot = name.rfind('.');
  if (dot == std::string_view::npos || step_of_name(name.substr(0, dot)) < 0) return false;
  const std::string_view mark = name.substr(dot + 1);
  const auto dash = mark.find('-');
  return dash != std::string_view::npos && dash > 0 && dash + 1 < mark.size() &&
         mark.find_first_not_of("0123456789-") == std::string_view::npos;
}

/// The names in a folder, or why there are none.
inline std::vector<std::string> names_in(const std::string& folder, std::error_code& error) {
  std::vector<std::string> names;
  std::filesystem::directory_iterator entry(folder, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error))
    names.push_back(entry->path().filename().string());
  return names;
}

/// Files that a killed run had not finished, and checkpoints beyond the newest `keep`, but not the one just written.
inline void remove_old(const std::string& folder, int keep, std::int64_t written) {
  std::error_code ignored;
  for (const std::string& name : names_in(folder, ignored))
    if (is_unfinished(name)) std::filesystem::remove(folder + "/" + name, ignored);
  if (keep == 0) return;
  const std::vector<std::int64_t> steps = list_checkpoints(folder);
  for (std::size_t i = 0; i + static_cast<std::size_t>(keep) < steps.size(); ++i)
    if (steps[i] != written) std::filesystem::remove(checkpoint_path(folder, steps[i]), ignored);
}

/// Work of one thread beside the others, one piece at a time. Never destroyed; a forked child, which has no such
/// thread, starts with a new one.
class BackgroundWriter {
 public:
  static BackgroundWriter& of_this_process() {
    static std::atomic<BackgroundWriter*> known{nullptr};
    BackgroundWriter* writer = known.load(std::memory_order_acquire);
    while (writer == nullptr || writer->process_ != ::getpid()) {
      auto made = std::unique_ptr<BackgroundWriter>(new BackgroundWriter(writer));
      if (!known.compare_exchange_strong(writer, made.get())) continue;
      if (writer == nullptr) std::atexit([] { of_this_process().finish(); });
      writer = made.release();
    }
    return *writer;
  }

  /// Waits for the work before, and throws what failed in it, once.
  void wait() {
    std::unique_lock lock(mutex_);
    wait_idle(lock);
  }

  /// The writer belongs to one call of save_checkpoint(), from the end of the work before until its own.
  class Claim {
   public:
    explicit Claim(BackgroundWriter& writer) : writer_(&writer) {
      std::unique_lock lock(writer.mutex_);
      writer.wait_idle(lock);
      writer.is_busy_ = true;
    }
    Claim(const Claim&) = delete;
    Claim& operator=(const Claim&) = delete;
    ~Claim() {
      if (writer_ != nullptr) writer_->release({});
    }
    /// The claim ends with the work. Where there can be no thread the work is done here.
    void start(std::function<void()> work) {
      BackgroundWriter& writer = *std::exchange(writer_, nullptr);
      try {
        std::thread([&writer, work] { writer.run(work); }).detach();
      } catch (...) { writer.run(work); }
    }

   private:
    BackgroundWriter* writer_;
  };

 private:
  explicit BackgroundWriter(const BackgroundWriter* of_parent) : process_(::getpid()), of_parent_(of_parent) {}
  void wait_idle(std::unique_lock<std::mutex>& lock) {
    done_.wait(lock, [&] { return !is_busy_; });
    if (failure_ != nullptr) std::rethrow_exception(std::exchange(failure_, nullptr));
  }
  void finish() {
    std::unique_lock lock(mutex_);
    done_.wait(lock, [&] { return !is_busy_; });
  }
  void run(const std::function<void()>& work) {
    std::exception_ptr failure;
    try {
      work();
    } catch (...) { failure = std::current_exception(); }
    release(std::move(failure));
  }
  void release(std::exception_ptr failure) {
    const std::lock_guard lock(mutex_);
    if (failure != nullptr) failure_ = std::move(failure);
    is_busy_ = false;
    done_.notify_all();
  }

  const pid_t process_;
  [[maybe_unused]] const BackgroundWriter* const of_parent_;  // a forked child's: not used, and not lost
  std::mutex mutex_;
  std::condition_variable done_;
  bool is_busy_ = false;
  std::exception_ptr failure_;
};

/// The value on the host, in memory that nobody writes to while it is held: that of others, who may, is copied.
inline Tensor kept_value(const Tensor& x, Location where) {
  Ref<TensorImpl> value = host_bytes(x, "save_checkpoint", where).value;
  if (value->storage->is_ours()) return Tensor(std::move(value));
  const HostBytes bytes{value};
  const auto size = static_cast<std::size_t>(bytes.size());
  Ref<Storage> storage = Storage::allocate(std::max<std::size_t>(size, 1));
  if (size > 0) std::memcpy(storage->data(), bytes.data(), size);
  return Tensor(TensorImpl::make_ready(value->type, std::move(storage)));
}

SINTER_DECL std::string save_state(const std::string& folder, std::int64_t step, tree::View object,
                                   const CheckpointOptions& options, Location where) {
  if (step < 0 || options.keep < 0)
    throw UserError("save_checkpoint",
                    "the step is " + std::to_string(step) + ", keep is " + std::to_string(options.keep), where,
                    "give numbers from 0 up");
  BackgroundWriter::Claim claim(BackgroundWriter::of_this_process());  // one of them writes and removes at a time
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw IoError("save_checkpoint", folder, "cannot be made: " + error.message(), where);
  const Generator& generator = Generator::current();
  TensorMap state = state_of(object);
  state.insert_or_assign(generator_key, generator.key.value());
  state.insert_or_assign(generator_counter, generator.counter.value());
  std::map<std::string, std::string> metadata{{"sinter.step", std::to_string(step)}};
  for (const auto& [key, value] : options.notes) metadata[note_prefix + key] = value;
  std::string path = checkpoint_path(folder, step);
  const auto write = [=](const TensorMap& values) {
    save_safetensors(path, values, metadata, where);
    remove_old(folder, options.keep, step);
  };
  if (!options.background) {
    write(state);
    return path;
  }
  // Values are computed, and brought to the host, by the thread that has them.
  for (auto& [name, value] : state) value = kept_value(value, where);
  claim.start([write, values = std::move(state)] { write(values); });
  return path;
}

inline std::pair<Checkpoint, TensorMap> read_state(const std::string& folder, std::int64_t step, Location where) {
  Checkpoint found;
  found.step = step;
  found.path = checkpoint_path(folder, found.step);
  SafeTensors file = read_safetensors(found.path, where);
  if (const auto written = file.metadata.find("sinter.step");
      written == file.metadata.end() || written->second != std::to_string(found.step))
    throw IoError("load_checkpoint", found.path, "is no checkpoint of this step", where, "was it renamed?");
  const std::string_view prefix = note_prefix;
  for (const auto& [key, value] : file.metadata)
    if (key.starts_with(prefix)) found.notes[key.substr(prefix.size())] = value;
  return {std::move(found), std::move(file.tensors)};
}

/// What a checkpoint says of the generator: taken out of its Tensors and checked; and put into this thread's.
inline TensorMap take_generator(TensorMap& tensors, const std::string& path, Location where) {
  const Generator& generator = Generator::current();
  TensorMap taken;
  for (const auto& [name, to] :
       {std::pair(generator_key, generator.key), std::pair(generator_counter, generator.counter)}) {
    auto node = tensors.extract(name);
    if (!node || !(node.mapped().shape() == to.shape()) || node.mapped().dtype() != to.dtype())
      throw IoError("load_checkpoint", path, std::string("holds no ") + name + " that fits", where);
    taken.insert(std::move(node));
  }
  return taken;
}

inline void restore_generator(const TensorMap& state) {
  const Generator& generator = Generator::current();
  for (const auto& [name, to] :
       {std::pair(generator_key, generator.key), std::pair(generator_counter, generator.counter)})
    to.set(state.at(name).to(to.value().device()));
}

SINTER_DECL std::optional<Checkpoint> load_state(const std::string& folder, tree::View shown, tree::Part state,
                                                 const std::int64_t* step, Location where) {
  wait_for_checkpoints(where);
  std::vector<std::int64_t> steps;
  if (step == nullptr) {
    steps = list_checkpoints(folder);
    if (steps.empty()) return {};
    step = &steps.back();
  }
  auto [found, tensors] = read_state(folder, *step, where);
  const TensorMap generator = take_generator(tensors, found.path, where);
  load_state(shown, state, tensors, {}, where);
  restore_generator(generator);
  return std::move(found);
}

}  // namespace io_detail

SINTER_DECL void wait_for_checkpoints(Location) { io_detail::BackgroundWriter::of_this_process().wait(); }

SINTER_DECL std::vector<std::int64_t> list_checkpoints(const std::string& folder) {
  std::vector<std::int64_t> steps;
  std::error_code error;
  for (const std::string& name : io_detail::names_in(folder, error))
    if (const std::int64_t step = io_detail::step_of_name(name); step >= 0) steps.push_back(step);
  if (error && error != std::errc::no_such_file_or_directory)
    throw IoError("list_checkpoints", folder, "cannot be listed: " + error.message());
  std::sort(steps.begin(), steps.end());
  return steps;
}

}  // namespace io
SINTER_NAMESPACE_END
