// Start-up on a PC without firmware, as Bochs emulates one: from 16-bit real mode to long mode with all of the
// processor's vector state enabled, then main, then the end of the emulation.
//
// A read-only memory that ends at 4 GiB holds nothing but a far jump to 0:0x1000, where this program lies. A fault
// ends the emulation: there is no table of handlers, so it becomes a triple fault, which Bochs reports with all registers.

.equ CODE_64, 0x08
.equ CODE_32, 0x10
.equ DATA, 0x18

.section .start, "ax"
.code16
.globl start
start:
  cli
  xorw %ax, %ax
  movw %ax, %ds
  lgdtl segments_pointer
  movl %cr0, %eax
  orb $1, %al  // PE
  movl %eax, %cr0
  ljmpl $CODE_32, $start_32

.code32
start_32:
  movw $DATA, %ax
  movw %ax, %ds
  movw %ax, %es
  movw %ax, %ss
  movl $stack_top, %esp
  movl $page_map, %eax
  movl %eax, %cr3
  movl $0x620, %esi  // CR4: PAE, OSFXSR, OSXMMEXCPT
  movl $1, %eax
  cpuid
  andl $(1 << 26), %ecx  // the processor has XSAVE
  shrl $8, %ecx
  orl %ecx, %esi  // CR4.OSXSAVE
  movl %esi, %cr4
  movl $0xc0000080, %ecx  // EFER
  rdmsr
  orl $(1 << 8), %eax  // LME
  wrmsr
  movl $0x80000033, %eax  // CR0: PG, NE, ET, MP, PE
  movl %eax, %cr0
  ljmpl $CODE_64, $start_64

.code64
start_64:
  testl $(1 << 18), %esi
  jz 1f
  movl $0xd, %eax
  xorl %ecx, %ecx
  cpuid
  andl $0xe7, %eax  // XCR0: x87, SSE, AVX and the three parts of AVX-512, as far as the processor has them
  xorl %edx, %edx
  xorl %ecx, %ecx
  xsetbv
1:
  fninit
  movl $bss_start, %edi
  movl $bss_end, %ecx
  subl %edi, %ecx
  xorl %eax, %eax
  rep stosb
  call main
  movl $farewell, %esi
  movl $9, %ecx
  movl $0x8900, %edx
  rep outsb
2:
  hlt
  jmp 2b

farewell:
  .asciz "Shutdown"  // what Bochs ends at when it is written to port 0x8900
.balign 8
segments:
  .quad 0
  .quad 0x00af9a000000ffff  // 64-bit code
  .quad 0x00cf9a000000ffff  // 32-bit code
  .quad 0x00cf92000000ffff  // data
segments_pointer:
  .word . - segments - 1
  .long segments

// The first 4 GiB, each address mapped to itself in pages of 1 GiB.
.section .data.start, "aw"
.balign 4096
page_map:
  .quad page_directories + 3
  .fill 511, 8, 0
page_directories:
  .quad 0x00000083
  .quad 0x40000083
  .quad 0x80000083
  .quad 0xc0000083
  .fill 508, 8, 0
