/* Counts the instructions between two markers, which do nothing on the guest: Thumb's hints 0xbf60
 * and 0xbf70. With `functions=1`, also counts the instructions of each function.
 *
 * QEMU's plugin interface, version 1, is declared here, because Debian's packages lack its header. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct qemu_plugin_tb;
struct qemu_plugin_insn;
typedef void (*on_execution)(unsigned cpu, void *data);
extern void qemu_plugin_register_vcpu_tb_trans_cb(
    uint64_t id, void (*)(uint64_t id, struct qemu_plugin_tb *));
extern size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
extern struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *, size_t);
extern const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *);
extern size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *);
extern const char *qemu_plugin_insn_symbol(const struct qemu_plugin_insn *);
extern void qemu_plugin_register_vcpu_insn_exec_cb(
    struct qemu_plugin_insn *, on_execution, int registers, void *);
extern void qemu_plugin_register_vcpu_insn_exec_inline(
    struct qemu_plugin_insn *, int add, void *to, uint64_t);

int qemu_plugin_version = 1;

struct function {
    char name[200];
    uint64_t count, before;
    struct function *next;
};

static uint64_t count, before;
static struct function *functions;
static int each;

static void on_begin(unsigned cpu, void *data)
{
    before = count;
    for (struct function *f = functions; f; f = f->next) f->before = f->count;
}

static void on_end(unsigned cpu, void *data)
{
    fprintf(stderr, "instructions %llu\n", (unsigned long long)(count - before));
    for (struct function *f = functions; f; f = f->next) {
        if (f->count > f->before) {
            fprintf(stderr, "function %llu %s\n", (unsigned long long)(f->count - f->before), f->name);
        }
    }
}

static struct function *function(const char *name)
{
    for (struct function *f = functions; f; f = f->next) {
        if (!strncmp(f->name, name, sizeof f->name - 1)) return f;
    }
    struct function *f = calloc(1, sizeof *f);
    strncpy(f->name, name, sizeof f->name - 1);
    f->next = functions;
    return functions = f;
}

static void on_translation(uint64_t id, struct qemu_plugin_tb *block)
{
    for (size_t i = 0; i < qemu_plugin_tb_n_insns(block); i++) {
        struct qemu_plugin_insn *at = qemu_plugin_tb_get_insn(block, i);
        uint16_t code;
        memcpy(&code, qemu_plugin_insn_data(at), sizeof code);
        if (qemu_plugin_insn_size(at) == 2 && (code == 0xbf60 || code == 0xbf70)) {
            qemu_plugin_register_vcpu_insn_exec_cb(at, code == 0xbf60 ? on_begin : on_end, 0, 0);
            continue;
        }
        qemu_plugin_register_vcpu_insn_exec_inline(at, 0, &count, 1);
        if (each) {
            const char *name = qemu_plugin_insn_symbol(at);
            struct function *f = function(name ? name : "?");
            qemu_plugin_register_vcpu_insn_exec_inline(at, 0, &f->count, 1);
        }
    }
}

int qemu_plugin_install(uint64_t id, const void *about, int argc, char **argv)
{
    for (int i = 0; i < argc; i++) each |= !strncmp(argv[i], "functions=", 10);
    qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
    return 0;
}
