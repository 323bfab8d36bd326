// A QEMU TCG plugin that counts the instructions executed between two addresses.
//
//   qemu-system-arm ... -plugin insn_count.so,first=0x1234,last=0x1300 -d plugin
//
// Counting starts when the instruction at `first` is executed and stops at `last`; the total is printed at the end. The
// declarations are those of QEMU's plugin interface, version 1; distributions ship no header for it.
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint64_t plugin_id_t;
struct plugin_tb;
struct plugin_insn;
enum callback_flags { CALLBACK_NO_REGISTERS = 0 };

void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id_t id, void (*callback)(plugin_id_t id, struct plugin_tb* tb));
void qemu_plugin_register_vcpu_insn_exec_cb(struct plugin_insn* insn, void (*callback)(unsigned cpu, void* data),
                                            enum callback_flags flags, void* data);
void qemu_plugin_register_atexit_cb(plugin_id_t id, void (*callback)(plugin_id_t id, void* data), void* data);
size_t qemu_plugin_tb_n_insns(const struct plugin_tb* tb);
struct plugin_insn* qemu_plugin_tb_get_insn(const struct plugin_tb* tb, size_t number);
uint64_t qemu_plugin_insn_vaddr(const struct plugin_insn* insn);
void qemu_plugin_outs(const char* text);

__attribute__((visibility("default"))) int qemu_plugin_version = 1;

static uint64_t first, last, total;
static int counting;

static void count(unsigned cpu, void* data) {
  const uint64_t address = (uint64_t)(uintptr_t)data;
  (void)cpu;
  if (address == first) counting = 1;
  if (address == last) counting = 0;
  total += (uint64_t)counting;
}

static void translate(plugin_id_t id, struct plugin_tb* tb) {
  (void)id;
  for (size_t n = 0; n < qemu_plugin_tb_n_insns(tb); ++n) {
    struct plugin_insn* insn = qemu_plugin_tb_get_insn(tb, n);
    qemu_plugin_register_vcpu_insn_exec_cb(insn, count, CALLBACK_NO_REGISTERS,
                                           (void*)(uintptr_t)qemu_plugin_insn_vaddr(insn));
  }
}

static void report(plugin_id_t id, void* data) {
  char text[64];
  (void)id;
  (void)data;
  snprintf(text, sizeof text, "instructions %" PRIu64 "\n", total);
  qemu_plugin_outs(text);
}

__attribute__((visibility("default"))) int qemu_plugin_install(plugin_id_t id, const void* info, int argc, char** argv) {
  (void)info;
  for (int n = 0; n < argc; ++n) {
    if (!strncmp(argv[n], "first=", 6)) first = strtoull(argv[n] + 6, NULL, 0);
    if (!strncmp(argv[n], "last=", 5)) last = strtoull(argv[n] + 5, NULL, 0);
  }
  qemu_plugin_register_vcpu_tb_trans_cb(id, translate);
  qemu_plugin_register_atexit_cb(id, report, NULL);
  return 0;
}
