# sectile_add_bundle(): a sealed library of kernels with a bundle of their code. docs/install.md shows its use.
#
# sectile_add_bundle(NAME
#   SOURCES source...        # with one SECTILE_BUNDLE or several
#   TARGETS target...        # chips, as sm_90a gfx942; virtual:sm_90a for a virtual device
#   [KERNELS]                # the sources call kernels of Sectile's library
#   [EMBED | FILE path]      # the bundle is in the library (the default), or a file beside the program or library that
#                            # NAME is linked into; an absolute path is taken as it is
#   [TUNING [target=]file...] # measurements (`sectile cache export`) that choose configurations
#   [HEADER name.h]          # functions of C for the kernels, which those who link NAME include; takes KERNELS
#   [CUBIN]                  # machine code of NVIDIA's chips beside PTX; needs ptxas
#   [COMPRESS]               # the code; the program then needs libzstd.so.1
#   [LIBRARIES library...])  # what the sources need beside Sectile
#
# Makes the library NAME (static, or shared with BUILD_SHARED_LIBS) of the sources, sealed, and the bundle, whose path is
# the target's property SECTILE_BUNDLE_FILE. The sources are compiled twice: NAME_generator, which `sectile build` loads to
# compile the kernels, has them with the compiler.
set(SECTILE_BUNDLE_TEMPLATE ${CMAKE_CURRENT_LIST_DIR}/SectileBundle.cpp.in)

function(sectile_add_bundle name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "KERNELS;EMBED;CUBIN;COMPRESS" "FILE;HEADER" "SOURCES;TARGETS;TUNING;LIBRARIES")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "sectile_add_bundle(${name}): there is no argument '${arg_UNPARSED_ARGUMENTS}'")
  endif()
  foreach(needed SOURCES TARGETS)
    if(NOT arg_${needed})
      message(FATAL_ERROR "sectile_add_bundle(${name}): ${needed} is missing")
    endif()
  endforeach()
  if(arg_EMBED AND arg_FILE)
    message(FATAL_ERROR "sectile_add_bundle(${name}): a bundle is in the library (EMBED) or a file (FILE), not both")
  endif()

  if(arg_HEADER AND NOT arg_KERNELS)
    message(FATAL_ERROR "sectile_add_bundle(${name}): HEADER needs KERNELS: that library has the C interface")
  endif()

  # With the compiler. A module, so that sources with a main function may take part.
  set(generator ${name}_generator)
  add_library(${generator} MODULE ${arg_SOURCES})
  target_link_libraries(${generator} PRIVATE Sectile::sectile ${arg_LIBRARIES})
  set_target_properties(${generator} PROPERTIES PREFIX "" LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/${generator})

  # Sealed.
  string(MAKE_C_IDENTIFIER ${name} symbol)
  set(linked ${CMAKE_CURRENT_BINARY_DIR}/${name}_bundle.cpp)
  add_library(${name} ${arg_SOURCES} ${linked})
  target_link_libraries(${name} PUBLIC $<IF:$<BOOL:${arg_KERNELS}>,Sectile::kernels,Sectile::runtime> PRIVATE ${arg_LIBRARIES})
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  get_target_property(type ${name} TYPE)
  if(type STREQUAL "STATIC_LIBRARY") # nothing else refers to the object that has the bundle
    target_link_options(${name} INTERFACE LINKER:--undefined=sectile_bundle_${symbol})
  endif()
  # What is set for the library later holds for the generator as well.
  target_include_directories(${generator} PRIVATE $<TARGET_PROPERTY:${name},INCLUDE_DIRECTORIES>)
  target_compile_definitions(${generator} PRIVATE
    $<FILTER:$<TARGET_PROPERTY:${name},COMPILE_DEFINITIONS>,EXCLUDE,^SECTILE_SEALED$>)
  target_compile_options(${generator} PRIVATE $<TARGET_PROPERTY:${name},COMPILE_OPTIONS>)

  # A file lies beside the programs; what is embedded is out of their way.
  set(folder ${CMAKE_CURRENT_BINARY_DIR})
  if(NOT arg_FILE)
    set(path ${folder}/${generator}/${name}.sectile)
  elseif(IS_ABSOLUTE "${arg_FILE}")
    set(path ${arg_FILE})
  else()
    if(CMAKE_RUNTIME_OUTPUT_DIRECTORY)
      set(folder ${CMAKE_RUNTIME_OUTPUT_DIRECTORY})
    endif()
    set(path ${folder}/${arg_FILE})
  endif()
  set(options)
  if(arg_CUBIN)
    list(APPEND options --cubin)
  endif()
  if(arg_COMPRESS)
    list(APPEND options --compress)
  endif()
  set(header)
  if(arg_HEADER)
    set(header ${CMAKE_CURRENT_BINARY_DIR}/${name}_header/${arg_HEADER})
    cmake_path(GET header PARENT_PATH header_folder)
    file(MAKE_DIRECTORY ${header_folder})
    list(APPEND options --header=${header})
    target_include_directories(${name} PUBLIC $<BUILD_INTERFACE:${CMAKE_CURRENT_BINARY_DIR}/${name}_header>)
  endif()
  set(measurements)
  foreach(tuning IN LISTS arg_TUNING)
    string(REGEX MATCH "^[^=/]*=" target "${tuning}")
    string(REGEX REPLACE "^[^=/]*=" "" file "${tuning}")
    cmake_path(ABSOLUTE_PATH file BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
    list(APPEND measurements ${file})
    list(APPEND options --tuning=${target}${file})
  endforeach()
  list(JOIN arg_TARGETS "," targets)
  add_custom_command(OUTPUT ${path} ${header}
    COMMAND Sectile::program --load $<TARGET_FILE:${generator}> build --target ${targets} ${options} -o ${path}
    DEPENDS ${generator} ${measurements}
    COMMENT "Compiling the bundle of ${name} for ${targets}" VERBATIM)
  # CMake orders the build by targets; more than one may need the file.
  add_custom_target(${name}_file DEPENDS ${path})
  add_dependencies(${name} ${name}_file)
  set_target_properties(${name} PROPERTIES SECTILE_BUNDLE_FILE ${path})

  set(file "nullptr")
  set(range "") # all of it
  set(size "sectile_bundle_end_${symbol} - sectile_bundle_begin_${symbol}")
  if(arg_FILE)
    set(file "\"${arg_FILE}\"")
    set(range ", 40, 16") # the identity
    set(size 0)
  endif()
  configure_file(${SECTILE_BUNDLE_TEMPLATE} ${linked} @ONLY)
  set_source_files_properties(${linked} PROPERTIES OBJECT_DEPENDS ${path})
endfunction()
