// Reading of configuration files: yaml.ipp defines read_configuration() and reads_configuration_files(), which
// configure.hpp declares. It stands on yaml-cpp where the library is built with it (SINTER_YAML), and says what is
// missing where it is not.
#pragma once

#include <sinter/jit/config/configuration.hpp>
#include <sinter/jit/config/configure.hpp>
