// Start-up for RISC-V machines without firmware: stack, trap handler, floating-point unit, bss, main, exit.
#include <stdint.h>

#include "semihosting.h"

extern uint32_t bss_start[], bss_end[];
int main(void);

__attribute__((noreturn, used)) static void start(void) {
  for (volatile uint32_t* to = bss_start; to < bss_end;) *to++ = 0;
  semihosting_exit(main());
}

__attribute__((noreturn, used, aligned(4))) static void fault(void) { semihosting_exit(125); }

__attribute__((naked, noreturn, section(".vectors"))) void Reset_Handler(void) {
  __asm__ volatile(
      "la sp, stack_top\n"
      "la t0, fault\n"
      "csrw mtvec, t0\n"
      "li t0, 0x2000\n"  // mstatus.FS: the floating-point unit is on
      "csrs mstatus, t0\n"
      "j start");
}
