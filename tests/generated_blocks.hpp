// Text in pages of documentation that the code itself prints: compared, or written anew where
// SINTER_UPDATE_GOLDEN=1.
#pragma once

#include "catch.hpp"

#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

namespace sinter_test {

inline std::string read_file(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

/// The page with the block that follows each mark `<!-- generated: NAME -->` replaced.
inline std::string with_blocks(std::string page, const std::map<std::string, std::string>& blocks) {
  for (const auto& [name, block] : blocks) {
    const std::size_t mark = page.find("<!-- generated: " + name + " -->\n```");
    REQUIRE(mark != std::string::npos);
    const std::size_t fence = page.find("```", mark), begin = page.find('\n', fence) + 1,
                      end = page.find("```\n", begin);
    page.replace(begin, end - begin, block);
  }
  return page;
}

/// `page` is a path inside the project.
inline void check_blocks(const std::string& page, const std::map<std::string, std::string>& blocks) {
  const std::string path = std::string(SINTER_SOURCE_DIR) + "/" + page, before = read_file(path),
                    wanted = with_blocks(before, blocks);
  INFO("if the change is meant, SINTER_UPDATE_GOLDEN=1 writes " << page << " anew");
  if (std::getenv("SINTER_UPDATE_GOLDEN") != nullptr) std::ofstream(path) << wanted;
  else CHECK(before == wanted);
}

}  // namespace sinter_test
