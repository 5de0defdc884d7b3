// The library around MPI: compiled with the mpi.h of the system, opened by Sinter at run time. Every call is one that
// does not wait, tested until it is done or the time is over: a process that has died does not keep the others.
#include <sinter/dist/mpi_table.hpp>

#include <mpi.h>
#if defined(OPEN_MPI)
#include <mpi-ext.h>
#endif

#include <chrono>
#include <climits>
#include <thread>
#include <vector>

namespace {

bool has_started_mpi = false;

struct Group {
  MPI_Comm comm = MPI_COMM_NULL;
  int size = 1;
};

/// Tests until done: often at first, then with pauses, for ranks may share a processor.
int wait_for(MPI_Request& request, double seconds) {
  const auto start = std::chrono::steady_clock::now();
  for (int round = 0;; ++round) {
    int is_done = 0;
    if (const int error = MPI_Test(&request, &is_done, MPI_STATUS_IGNORE); error != MPI_SUCCESS) return error;
    if (is_done != 0) return 0;
    const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - start;
    if (waited.count() > seconds) return sinter_mpi_timeout;
    if (round > 200) std::this_thread::sleep_for(std::chrono::microseconds(waited.count() > 0.05 ? 200 : 10));
    else if (round > 20) std::this_thread::yield();
  }
}

/// MPI's counts are ints.
bool narrow(const std::int64_t* from, int count, std::vector<int>& to) {
  for (int i = 0; i < count; ++i) {
    if (from[i] > INT_MAX) return false;
    to.push_back(static_cast<int>(from[i]));
  }
  return true;
}

/// A unit of bytes as a type.
struct Unit {
  explicit Unit(int bytes) {
    MPI_Type_contiguous(bytes, MPI_BYTE, &type);
    MPI_Type_commit(&type);
  }
  ~Unit() { MPI_Type_free(&type); }
  Unit(const Unit&) = delete;
  Unit& operator=(const Unit&) = delete;
  MPI_Datatype type = MPI_DATATYPE_NULL;
};

int start(int* rank, int* size) {
  int is_running = 0;
  MPI_Initialized(&is_running);
  int level = MPI_THREAD_SINGLE;
  if (is_running != 0) {
    MPI_Query_thread(&level);
  } else {
    if (const int error = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &level); error != MPI_SUCCESS)
      return error;
    has_started_mpi = true;
  }
  if (level < MPI_THREAD_SERIALIZED) return sinter_mpi_one_thread;
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_rank(MPI_COMM_WORLD, rank);
  MPI_Comm_size(MPI_COMM_WORLD, size);
  return 0;
}

const char* library() {
  static char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  MPI_Get_library_version(text, &length);
  return text;
}

/// An empty message from each of the ranks to the first and back: making a group waits without end for who is missing.
int find_all(const int* ranks, int count, double seconds) {
  int self = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &self);
  const auto message = [&](bool is_sent, int other) {
    MPI_Request request = MPI_REQUEST_NULL;
    const int tag = ranks[0];
    const int error = is_sent ? MPI_Isend(nullptr, 0, MPI_BYTE, other, tag, MPI_COMM_WORLD, &request)
                              : MPI_Irecv(nullptr, 0, MPI_BYTE, other, tag, MPI_COMM_WORLD, &request);
    return error != MPI_SUCCESS ? error : wait_for(request, seconds);
  };
  for (const bool is_back : {false, true})
    for (int i = 1; i < count; ++i) {
      if (self != ranks[0] && self != ranks[i]) continue;
      const bool is_first = self == ranks[0];
      if (const int error = message(is_first == is_back, is_first ? ranks[i] : ranks[0]); error != 0) return error;
    }
  return 0;
}

int group(const int* ranks, int count, void** out, double seconds) {
  if (const int error = find_all(ranks, count, seconds); error != 0) return error;
  MPI_Group world = MPI_GROUP_NULL, members = MPI_GROUP_NULL;
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  MPI_Group_incl(world, count, ranks, &members);
  Group made{MPI_COMM_NULL, count};
  // The tag tells groups apart that are made at the same time: members agree on their first rank.
  const int error = MPI_Comm_create_group(MPI_COMM_WORLD, members, ranks[0], &made.comm);
  MPI_Group_free(&members);
  MPI_Group_free(&world);
  if (error != MPI_SUCCESS) return error;
  MPI_Comm_set_errhandler(made.comm, MPI_ERRORS_RETURN);
  *out = new Group(made);
  return 0;
}

void free_group(void* opaque) {
  Group* made = static_cast<Group*>(opaque);
  int is_over = 0;
  MPI_Finalized(&is_over);
  if (is_over == 0) MPI_Comm_free(&made->comm);
  delete made;
}

int exchange(void* opaque, int unit, const void* send, const std::int64_t* send_counts, const std::int64_t* send_places,
             void* receive, const std::int64_t* receive_counts, const std::int64_t* receive_places, double seconds) {
  const Group& in = *static_cast<Group*>(opaque);
  std::vector<int> a, b, c, d;
  if (!narrow(send_counts, in.size, a) || !narrow(send_places, in.size, b) || !narrow(receive_counts, in.size, c) ||
      !narrow(receive_places, in.size, d))
    return sinter_mpi_too_large;
  const Unit of(unit);
  MPI_Request request = MPI_REQUEST_NULL;
  const int error =
      MPI_Ialltoallv(send, a.data(), b.data(), of.type, receive, c.data(), d.data(), of.type, in.comm, &request);
  return error != MPI_SUCCESS ? error : wait_for(request, seconds);
}

int gather(void* opaque, int unit, const void* send, std::int64_t count, void* receive, const std::int64_t* counts,
           const std::int64_t* places, double seconds) {
  const Group& in = *static_cast<Group*>(opaque);
  std::vector<int> own, a, b;
  if (!narrow(&count, 1, own) || !narrow(counts, in.size, a) || !narrow(places, in.size, b))
    return sinter_mpi_too_large;
  const Unit of(unit);
  MPI_Request request = MPI_REQUEST_NULL;
  const int error = MPI_Iallgatherv(send, own[0], of.type, receive, a.data(), b.data(), of.type, in.comm, &request);
  return error != MPI_SUCCESS ? error : wait_for(request, seconds);
}

int broadcast(void* opaque, int unit, void* data, std::int64_t count, int root, double seconds) {
  const Group& in = *static_cast<Group*>(opaque);
  std::vector<int> own;
  if (!narrow(&count, 1, own)) return sinter_mpi_too_large;
  const Unit of(unit);
  MPI_Request request = MPI_REQUEST_NULL;
  const int error = MPI_Ibcast(data, own[0], of.type, root, in.comm, &request);
  return error != MPI_SUCCESS ? error : wait_for(request, seconds);
}

/// Tests all of them until they are done, as wait_for does for one.
int wait_for_all(std::vector<MPI_Request>& requests, double seconds) {
  for (MPI_Request& request : requests)
    if (const int error = wait_for(request, seconds); error != 0) return error;
  return 0;
}

int messages(void* opaque, int unit, const void* send, const std::int64_t* send_counts, const std::int64_t* send_places,
             void* receive, const std::int64_t* receive_counts, const std::int64_t* receive_places, double seconds) {
  const Group& in = *static_cast<Group*>(opaque);
  std::vector<int> to, from;
  if (!narrow(send_counts, in.size, to) || !narrow(receive_counts, in.size, from)) return sinter_mpi_too_large;
  int self = 0;
  MPI_Comm_rank(in.comm, &self);
  const Unit of(unit);
  constexpr int tag = 1;
  std::vector<MPI_Request> requests;
  const auto start_one = [&](bool is_sent, int r) {
    MPI_Request& request = requests.emplace_back(MPI_REQUEST_NULL);
    const auto i = static_cast<std::size_t>(r);
    return is_sent ? MPI_Isend(static_cast<const char*>(send) + send_places[r] * unit, to[i], of.type, r, tag, in.comm,
                               &request)
                   : MPI_Irecv(static_cast<char*>(receive) + receive_places[r] * unit, from[i], of.type, r, tag,
                               in.comm, &request);
  };
  for (const bool is_sent : {false, true})
    for (int r = 0; r < in.size; ++r) {
      if (r == self || (is_sent ? to : from)[static_cast<std::size_t>(r)] == 0) continue;
      if (const int error = start_one(is_sent, r); error != MPI_SUCCESS) return error;
    }
  return wait_for_all(requests, seconds);
}

int is_cuda_aware() {
#if defined(OPEN_MPI) && defined(MPIX_CUDA_AWARE_SUPPORT)
  return MPIX_Query_cuda_support();
#elif defined(MPICH_NUMVERSION) && MPICH_NUMVERSION >= 40000000
  int is_there = 0;
  return MPIX_GPU_query_support(MPIX_GPU_SUPPORT_CUDA, &is_there) == MPI_SUCCESS ? is_there : 0;
#else
  return 0;
#endif
}

void stop(int has_failed) {
  int is_over = 0;
  MPI_Finalized(&is_over);
  if (!has_started_mpi || is_over != 0 || has_failed != 0) return;
  MPI_Finalize();
}

constexpr SinterMpiTable table{sinter_mpi_version, start,    library,       group, free_group, exchange, gather,
                               broadcast,          messages, is_cuda_aware, stop};

}  // namespace

const SinterMpiTable* sinter_mpi_table() { return &table; }
