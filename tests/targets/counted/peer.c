/* Runs a model compiled to C by another compiler, with the input, markers and output of ours. */
#include <stdint.h>

extern uint32_t __etext, __data_start__, __data_end__, __bss_start__, __bss_end__, __stack_top__;
extern void counted(const float *, float *);

static float input[INPUTS], output[OUTPUTS];

static void semihosting(uint32_t call, const void *with)
{
    register uint32_t r0 __asm__("r0") = call;
    register const void *r1 __asm__("r1") = with;
    __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
}

static void line(const char *word, uint32_t bits)
{
    char text[] = " 00000000\n";
    for (int i = 0; i < 8; i++) text[1 + i] = "0123456789abcdef"[bits >> (28 - 4 * i) & 15];
    semihosting(4, word);
    semihosting(4, text);
}

static void run(void)
{
    uint32_t state = 1;
    for (int i = 0; i < INPUTS; i++) {
        state = state * 1664525u + 1013904223u;
        input[i] = ((int32_t)(state >> 24) - 128) / 128.0f;
    }
    uint32_t here, *last = &here - 32;
    for (volatile uint32_t *at = &__bss_end__; at < last; at++) *at = 0xa5a5a5a5;
    __asm__ volatile(".inst.n 0xbf60" ::: "memory");
    counted(input, output);
    __asm__ volatile(".inst.n 0xbf70" ::: "memory");
    volatile uint32_t *at = &__bss_end__;
    while (at < last && *at == 0xa5a5a5a5) at++;
    for (int i = 0; i < OUTPUTS; i++) {
        union { float x; uint32_t bits; } y = { output[i] };
        line("y", y.bits);
    }
    line("stack", (uint32_t)last - (uint32_t)at);
}

void start(void)
{
    *(volatile uint32_t *)0xe000ed88 |= 0xf << 20; /* the floating-point unit, and Helium */
    __asm__ volatile("dsb\n isb");
    uint32_t *from = &__etext;
    for (uint32_t *to = &__data_start__; to < &__data_end__;) *to++ = *from++;
    for (uint32_t *to = &__bss_start__; to < &__bss_end__;) *to++ = 0;
    run();
    semihosting(0x18, (void *)0x20026);
    for (;;) continue;
}

static void fault(void)
{
    semihosting(0x18, (void *)0x20023);
}

__attribute__((section(".vectors"), used)) const void *const vectors[16] = {
    &__stack_top__, start, fault, fault, fault, fault, fault,
};
