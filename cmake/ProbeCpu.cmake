# Chooses ggml's CPU features by running one instruction of each set, because a virtual machine may
# list sets that trap (AMX is the known case) and GGML_NATIVE would believe the list.
# A feature that the user sets on the command line (-DGGML_AVX512=OFF) is left alone.
include(CheckCSourceRuns)

function(skippy_probe_feature ggml_option flags body)
  if(DEFINED CACHE{${ggml_option}} OR DEFINED ${ggml_option})
    return()
  endif()
  set(CMAKE_REQUIRED_FLAGS "${flags}")
  set(CMAKE_REQUIRED_QUIET ON)
  # Operands are volatile so that nothing is folded at compile time; a trap is a non-zero exit.
  check_c_source_runs("
    #include <immintrin.h>
    volatile int seed = 3;
    int main(void) { ${body} }" SKIPPY_RUNS_${ggml_option})
  if(SKIPPY_RUNS_${ggml_option})
    set(value ON)
  else()
    set(value OFF)
  endif()
  set(${ggml_option} ${value} CACHE BOOL "chosen by running an instruction of the set")
endfunction()

function(skippy_probe_cpu)
  set(GGML_NATIVE OFF CACHE BOOL "replaced by the run probes of cmake/ProbeCpu.cmake")
  if(CMAKE_CROSSCOMPILING OR NOT CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
    return()
  endif()
  skippy_probe_feature(GGML_SSE42 "-msse4.2" "return _mm_crc32_u8(seed, 1) == 0;")
  skippy_probe_feature(GGML_AVX "-mavx" "
    __m256 v = _mm256_set1_ps((float)seed); v = _mm256_mul_ps(v, v);
    return _mm256_cvtss_f32(v) != 9.0f;")
  skippy_probe_feature(GGML_AVX2 "-mavx2" "
    __m256i v = _mm256_set1_epi32(seed); v = _mm256_mullo_epi32(v, v);
    return _mm256_extract_epi32(v, 0) != 9;")
  skippy_probe_feature(GGML_BMI2 "-mbmi2" "return _pext_u32((unsigned)seed, 3u) != 3u;")
  skippy_probe_feature(GGML_FMA "-mavx -mfma" "
    __m256 v = _mm256_set1_ps((float)seed); v = _mm256_fmadd_ps(v, v, v);
    return _mm256_cvtss_f32(v) != 12.0f;")
  skippy_probe_feature(GGML_F16C "-mavx -mf16c" "
    __m256 v = _mm256_cvtph_ps(_mm_set1_epi16((short)(0x4000 + seed)));
    return _mm256_cvtss_f32(v) < 2.0f;")
  skippy_probe_feature(GGML_AVX_VNNI "-mavx2 -mavxvnni" "
    __m256i v = _mm256_set1_epi32(seed); v = _mm256_dpbusd_avx_epi32(v, v, v);
    return _mm256_extract_epi32(v, 0) != 12;")
  set(avx512 "-mavx512f -mavx512cd -mavx512vl -mavx512dq -mavx512bw")
  skippy_probe_feature(GGML_AVX512 "${avx512}" "
    __m512i v = _mm512_set1_epi32(seed); v = _mm512_mullo_epi32(v, v);
    v = _mm512_add_epi8(v, _mm512_setzero_si512());
    return _mm512_reduce_add_epi32(v) != 144;")
  skippy_probe_feature(GGML_AVX512_VBMI "${avx512} -mavx512vbmi" "
    __m512i v = _mm512_set1_epi8((char)seed); v = _mm512_permutexvar_epi8(v, v);
    return (_mm_cvtsi128_si32(_mm512_castsi512_si128(v)) & 255) != 3;")
  skippy_probe_feature(GGML_AVX512_VNNI "${avx512} -mavx512vnni" "
    __m512i v = _mm512_set1_epi32(seed); v = _mm512_dpbusd_epi32(v, v, v);
    return _mm512_reduce_add_epi32(v) != 192;")
  skippy_probe_feature(GGML_AVX512_BF16 "${avx512} -mavx512bf16" "
    __m512bh b = _mm512_cvtne2ps_pbh(_mm512_set1_ps((float)seed), _mm512_set1_ps((float)seed));
    __m512 v = _mm512_dpbf16_ps(_mm512_setzero_ps(), b, b);
    return _mm512_cvtss_f32(v) != 18.0f;")
  # AMX stays off unless asked for: ggml reaches it only through repacked weights, whose results depend
  # on the batch shape, and listed-but-trapping tiles are the fault this file exists for.
  foreach(kind TILE INT8 BF16)
    set(GGML_AMX_${kind} OFF CACHE BOOL "off by default: see cmake/ProbeCpu.cmake")
  endforeach()
endfunction()
