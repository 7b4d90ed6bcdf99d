//! What an executor remembers about products: which kernel each takes, what was compiled, cuBLASLt's plans, and
//! the table.

use super::cublas::Cublas;
use super::kernels::Form;
use super::matmul_kernel::MatmulKernel;
use super::request::Question;
use super::table::Table;
use crate::device::DeviceFacts;
use crate::kernel::Kernel;
use crate::lock::lock;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};

/// Products that are remembered.
const MOST_PLANS: usize = 4096;

/// One per executor, empty at first.
#[derive(Default)]
pub(crate) struct MatmulState {
    table: OnceLock<Mutex<Table>>,
    plans: Mutex<HashMap<Asked, Arc<Plan>>>,
    /// By the form's key.
    pub(crate) kernels: Mutex<HashMap<String, Kernel>>,
    pub(crate) cublas: Mutex<Option<Cublas>>,
}

/// A product, and the kernel that was asked for.
type Asked = (Question, Option<MatmulKernel>);

/// What a product runs as.
#[derive(Clone)]
pub(crate) enum Plan {
    /// A kernel that was compiled for it.
    Compiled(Form, Kernel),
    CublasLt,
    Plain,
}

impl MatmulState {
    /// Looks into the table, which is read at the first use.
    pub(crate) fn with_table<R>(&self, facts: &DeviceFacts, look: impl FnOnce(&Table) -> R) -> R {
        look(&lock(self.table.get_or_init(|| Mutex::new(Table::of(facts)))))
    }

    /// Changes the table; products choose anew.
    pub(crate) fn change_table<R>(
        &self,
        facts: &DeviceFacts,
        change: impl FnOnce(&mut Table) -> R,
    ) -> R {
        let changed = change(&mut lock(self.table.get_or_init(|| Mutex::new(Table::of(facts)))));
        lock(&self.plans).clear();
        changed
    }

    pub(crate) fn plan(
        &self,
        question: &Question,
        asked: Option<MatmulKernel>,
    ) -> Option<Arc<Plan>> {
        lock(&self.plans).get(&(*question, asked)).cloned()
    }

    pub(crate) fn keep(&self, question: Question, asked: Option<MatmulKernel>, plan: &Arc<Plan>) {
        let mut plans = lock(&self.plans);
        // A program whose shapes never repeat must not fill the memory with them.
        if plans.len() >= MOST_PLANS {
            plans.clear();
        }
        plans.insert((question, asked), plan.clone());
    }
}
