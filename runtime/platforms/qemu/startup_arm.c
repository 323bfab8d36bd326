// Start-up for Cortex-M boards: vector table, floating-point unit, data and bss, main, exit.
#include <stdint.h>

#include "semihosting.h"

extern uint32_t stack_top[], data_start[], data_end[], data_load[], bss_start[], bss_end[];
int main(void);

#define CPACR (*(volatile uint32_t*)0xe000ed88u)

__attribute__((noreturn)) void Reset_Handler(void) {
  CPACR |= 0xfu << 20;  // floating-point and vector unit: full access
  __asm__ volatile("dsb\nisb" ::: "memory");
  for (volatile uint32_t *to = data_start, *from = data_load; to < data_end;) *to++ = *from++;
  for (volatile uint32_t* to = bss_start; to < bss_end;) *to++ = 0;
  semihosting_exit(main());
}

static void fault(void) { semihosting_exit(125); }

__attribute__((section(".vectors"), used)) static const uintptr_t vectors[16] = {
    (uintptr_t)stack_top, (uintptr_t)Reset_Handler, (uintptr_t)fault, (uintptr_t)fault, (uintptr_t)fault,
    (uintptr_t)fault,     (uintptr_t)fault,         (uintptr_t)fault, 0,                0,
    0,                    (uintptr_t)fault,         (uintptr_t)fault, 0,                (uintptr_t)fault,
    (uintptr_t)fault,
};
