# `tools/test --syntax PRESET`: the compiler of a preset reads every file without generating code. Sourced, never run.

# syntax_suite PRESET: leaves the results in $results.
syntax_suite() {
  local preset=${1:?--syntax needs the name of a preset, as clang19}
  if (configure "$preset" -DSINTER_BUILD_TESTS=ON -DSINTER_BUILD_EXAMPLES=ON && build "$preset" sinter_test_pch sinter_single_header); then
    say "reading every file with the compiler of build/$preset"
    python3 "$project/tools/lib/syntax_only.py" "$project/build/$preset" "$results/$preset.syntax.xml" "$(build_jobs)"
  else
    touch "$results/$preset.does_not_build"
  fi
}
