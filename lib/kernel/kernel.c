/* Which instruction set, and the public functions over its table. */
#include "kernel/table.h"

#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

static const struct kernel kernels[] = {
    {KERNEL_GENERIC, "generic", &float_generic, &quant_generic},
#if defined(__x86_64__)
    {KERNEL_AVX2, "avx2", &float_avx2, &quant_avx2},
    {KERNEL_AVX512, "avx512", &float_avx512, &quant_avx512},
    {KERNEL_AMX, "amx", &float_avx512, &quant_amx},
#endif
};
#define N_KERNELS (sizeof kernels / sizeof kernels[0])

/* ---- what this CPU has --------------------------------------------------------------------- */

#if defined(__x86_64__)

/* Bits of the extended control register: the register states that the system saves. */
static uint64_t saved_states(void)
{
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

/* Since Linux 5.16 a process must ask before it uses the tiles' registers. */
static bool tiles_permitted(void)
{
    const long request_permission = 0x1023 /* ARCH_REQ_XCOMP_PERM */, tile_data = 18;
    return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
}

static bool has_level(enum kernel_level level)
{
    uint32_t a, b, c, d, b7, c7, d7;
    const uint32_t saves = bit_OSXSAVE | bit_AVX, avx2 = bit_FMA | bit_F16C;
    const uint32_t avx512 = bit_AVX512F | bit_AVX512DQ | bit_AVX512BW | bit_AVX512VL;
    const uint32_t amx = 1u << 22 | 1u << 24 | 1u << 25; /* bf16, tile, int8 */
    if (level == KERNEL_GENERIC)
        return true;
    if (!__get_cpuid(1, &a, &b, &c, &d) || (c & saves) != saves ||
        !__get_cpuid_count(7, 0, &a, &b7, &c7, &d7))
        return false;
    uint64_t saved = saved_states();
    if ((saved & 0x6) != 0x6 || (c & avx2) != avx2 || !(b7 & bit_AVX2))
        return false;
    if (level == KERNEL_AVX2)
        return true;
    if ((saved & 0xe0) != 0xe0 || (b7 & avx512) != avx512 || !(c7 & bit_AVX512VNNI))
        return false;
    if (level == KERNEL_AVX512)
        return true;
    return (saved & 0x60000) == 0x60000 && (d7 & amx) == amx && tiles_permitted();
}

#else

static bool has_level(enum kernel_level level)
{
    return level == KERNEL_GENERIC;
}

#endif

const struct kernel *kernel_at(enum kernel_level level)
{
    for (size_t i = 0; i < N_KERNELS; i++)
        if (kernels[i].level == level && has_level(level))
            return &kernels[i];
    return NULL;
}

const struct kernel *kernel_choose(struct error *error)
{
    const char *name = getenv("UNROLL_CPU");
    const struct kernel *best = NULL;
    char levels[64] = "";
    for (size_t i = 0; i < N_KERNELS; i++) {
        const struct kernel *kernel = kernel_at(kernels[i].level);
        if (!kernel)
            continue;
        if (name && strcmp(name, kernel->name) == 0)
            return kernel;
        strcat(strcat(levels, *levels ? ", " : ""), kernel->name);
        best = kernel;
    }
    if (name && *name) {
        error_set(error, STATUS_USAGE, "UNROLL_CPU is '%s', but this CPU has %s", name, levels);
        return NULL;
    }
    return best;
}

const char *kernel_name(const struct kernel *kernel)
{
    return kernel->name;
}

/* ---- matrices ------------------------------------------------------------------------------ */

/* Multiply-adds below which one thread is faster than waking another. */
#define SMALL_WORK 100000

/* Outputs are dealt in groups of sixteen; the groups of all products are counted through. */
struct multiplication {
    const struct kernel *kernel;
    const struct product *products;
    size_t n_products;
    struct activations *const *x; /* (n_products), or one for all */
    bool same;
};

static struct activations *x_of(const struct multiplication *m, size_t product)
{
    return m->x[m->same ? 0 : product];
}

static size_t groups_of(const struct product *product)
{
    return ((size_t)product->w->rows + 15) / 16;
}

static multiply_range *multiply_for(const struct kernel *kernel, enum tensor_type type)
{
    switch (type) {
    case TENSOR_F32:
        return kernel->floats->multiply_f32;
    case TENSOR_F16:
        return kernel->floats->multiply_f16;
    case TENSOR_BF16:
        return kernel->floats->multiply_bf16;
    default:
        return kernel->quants->multiply[type];
    }
}

static void work_multiply(void *context, int thread, size_t begin, size_t end)
{
    const struct multiplication *m = context;
    (void)thread;
    size_t group = 0; /* the first of the product */
    for (size_t i = 0; i < m->n_products && group < end; i++) {
        const struct product *product = &m->products[i];
        const struct matrix *w = product->w;
        size_t next = group + groups_of(product);
        size_t from = begin > group ? begin : group, to = end < next ? end : next;
        if (from < to) {
            uint32_t first = (uint32_t)(from - group) * 16;
            uint32_t stop = to == next ? w->rows : (uint32_t)(to - group) * 16;
            multiply_for(m->kernel, w->type)(w, x_of(m, i), product->y, product->stride, first,
                                             stop);
        }
        group = next;
    }
}

static void run_multiplication(struct multiplication *m, struct threads *threads)
{
    size_t groups = 0;
    uint64_t rows = 0; /* of all groups */
    double work = 0;
    for (size_t i = 0; i < m->n_products; i++) {
        const struct product *product = &m->products[i];
        groups += groups_of(product);
        rows += groups_of(product) * x_of(m, i)->rows;
        work += (double)product->w->rows * product->w->cols * x_of(m, i)->rows;
    }
    if (work < SMALL_WORK)
        threads = NULL;
    for (size_t i = 0; i < m->n_products; i++)
        activations_prepare(m->kernel, threads, x_of(m, i), m->products[i].w->type);
    /* With many rows a range of four groups uses x once more while it is in the cache. */
    bool many = rows >= 16 * groups && groups >= 32 * (size_t)threads_count(threads);
    threads_run(threads, groups, many ? 4 : 1, work_multiply, m);
}

void kernel_multiply(const struct kernel *kernel, struct threads *threads,
                     const struct product *products, size_t n_products, struct activations *x)
{
    struct multiplication m = {kernel, products, n_products, &x, true};
    run_multiplication(&m, threads);
}

void kernel_multiply_each(const struct kernel *kernel, struct threads *threads,
                          const struct product *products, size_t n_products,
                          struct activations *const *x)
{
    struct multiplication m = {kernel, products, n_products, x, false};
    run_multiplication(&m, threads);
}

/* ---- row operations ------------------------------------------------------------------------ */

void kernel_rms_norm(const struct kernel *kernel, float *y, const float *x, const float *w,
                     uint32_t n, float epsilon)
{
    kernel->floats->rms_norm(y, x, w, n, epsilon);
}

void kernel_layer_norm(const struct kernel *kernel, float *y, const float *x, const float *w,
                       const float *b, uint32_t n, float epsilon)
{
    kernel->floats->layer_norm(y, x, w, b, n, epsilon);
}

void kernel_add(const struct kernel *kernel, float *y, const float *x, size_t n)
{
    kernel->floats->add(y, x, n);
}

void kernel_add_scaled(const struct kernel *kernel, float *y, const float *x, float factor,
                       size_t n)
{
    kernel->floats->add_scaled(y, x, factor, n);
}

void kernel_scale(const struct kernel *kernel, float *x, float factor, size_t n)
{
    kernel->floats->scale(x, factor, n);
}

void kernel_softcap(const struct kernel *kernel, float *x, float cap, size_t n)
{
    kernel->floats->softcap(x, cap, n);
}

void kernel_silu_multiply(const struct kernel *kernel, float *gate, const float *up, size_t n)
{
    kernel->floats->silu_multiply(gate, up, n);
}

void kernel_gelu_multiply(const struct kernel *kernel, float *gate, const float *up, size_t n)
{
    kernel->floats->gelu_multiply(gate, up, n);
}

void kernel_gelu(const struct kernel *kernel, float *x, size_t n)
{
    kernel->floats->gelu(x, n);
}

void kernel_rope(const struct kernel *kernel, float *x, uint32_t heads, uint32_t dim,
                 uint32_t rotated, const float *cosine, const float *sine, bool adjacent)
{
    kernel->floats->rope(x, heads, dim, rotated, cosine, sine, adjacent);
}

void kernel_f32_to_f16(const struct kernel *kernel, uint16_t *y, const float *x, size_t n)
{
    kernel->floats->f32_to_f16(y, x, n);
}

size_t kernel_find_not_finite(const struct kernel *kernel, const float *x, size_t n)
{
    return kernel->floats->find_not_finite(x, n);
}
