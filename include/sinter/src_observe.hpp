// Every definition of jit/observe: profiles, pages and pictures. Included by sinter.hpp when header-only, else by one
// translation unit, which programs that use none of it do not link: see src.hpp.
#pragma once
// jit/observe
#include <sinter/jit/observe/instructions.ipp>
#include <sinter/jit/observe/page.ipp>
#include <sinter/jit/observe/picture.ipp>
#include <sinter/jit/observe/profile.ipp>
