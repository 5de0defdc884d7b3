// What tuning needs besides sinter.hpp: schedules as files, its figures, and waiting for the background.
#pragma once

#include <sinter/jit/tuning.hpp>
#include <sinter/sinter.hpp>
