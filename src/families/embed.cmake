# cmake -DOUTPUT=embedded.cc -DFILES=a.toml|b.toml -P embed.cmake: the files as string literals, so that the program needs
# none of them when it runs.
string(REPLACE "|" ";" files "${FILES}")
set(text "#include \"families/embedded.h\"\n\n#include <array>\n\nnamespace skippy::families {\n\n")
string(APPEND text "std::span<const SourceFile> EmbeddedFiles() {\n  static constexpr std::array kFiles{\n")
foreach(file IN LISTS files)
  file(READ "${file}" content)
  get_filename_component(name "${file}" NAME)
  string(APPEND text "      SourceFile{\"${name}\", R\"toml(${content})toml\"},\n")
endforeach()
string(APPEND text "  };\n  return kFiles;\n}\n\n}  // namespace skippy::families\n")
file(WRITE "${OUTPUT}" "${text}")
